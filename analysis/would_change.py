"""What would change a verdict: a repair, a control, a margin, more blocks, an audit."""

from __future__ import annotations

from ablate.design.spec import Margin
from analysis.contrast import ContrastReport
from analysis.digits import plural
from analysis.one_ulp import FEWEST
from analysis.undecided import blocks_enough

ONE_ULP = "a one-ulp control (an arm with `repeat` and `perturb: one-ulp`): without one no gap is called SYSTEMATIC"
MARGIN = "a margin in the grid, fixed before the launch: without one no equivalence is claimed"
AUDIT = "an audit of every trial's first batch, on both sides (`audit: {first: 3}` in the grid)"


def would_change(contrast: ContrastReport, margin: Margin | None) -> list[str]:
    """Return what would change the verdict of a contrast, the most telling first.

    Args:
        contrast: with its verdict.
        margin: the equivalence margin.
    """
    verdict = contrast.verdict
    if verdict.cause == "CONFOUNDED":
        streams = ", ".join(dict.fromkeys(mismatch.stream for mismatch in contrast.streams.mismatches))
        return [f"equal {streams} on both sides (take random numbers from `draw` or `ctx.draw`), and a new launch"]
    if verdict.cause == "BUG":
        return ["a repair of the fault that is named, and a new launch: no outcome outweighs it"]
    if verdict.cause == "BITWISE EQUAL":
        return ["nothing on these machines; other machines, versions or more batches may part"]
    found = []
    if verdict.cause == "UNKNOWN" and not verdict.declared:
        found.append(AUDIT)
    if contrast.control is not None:
        return found
    if margin is None:
        found.append(MARGIN)
    found += _one_ulp(contrast)
    if verdict.size == "UNDECIDED":
        blocks = blocks_enough(contrast.effect, margin)
        found.append(f"more blocks: {blocks[:1].lower()}{blocks[1:].rstrip('.')}" if blocks else "more blocks")
    elif verdict.size in ("EQUIVALENT", "DIFFERENT BUT NEGLIGIBLE"):
        found.append(f"a margin narrower than {margin}, or seeds and machines that were not measured")
    return found or ["seeds and machines that were not measured"]


def _one_ulp(contrast: ContrastReport) -> list[str]:
    beyond = contrast.beyond_one_ulp
    if beyond is None:
        return [ONE_ULP]
    if beyond.n < FEWEST:
        return [f"a one-ulp control over at least {FEWEST} of the same blocks (there are {beyond.n})"]
    if contrast.verdict.size == "DIFFERENT" and not beyond.shown:
        return [f"more blocks than {plural(beyond.n, 'block')}, if the gap is larger than the one-ulp control's"]
    return []
