"""What a reader must know to read a gap report right."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from ablate.design.spec import Margin
from analysis.bca import FEW
from analysis.contrast import ContrastReport
from analysis.digits import number, p_value, plural

LEVEL = 0.05
MEANING = {
    "A/A": "the same arm once more, which shows whether it repeats itself",
    "one-ulp": "initial weights moved by one ulp, the smallest step between two floating-point numbers, which shows "
    "how far rounding alone takes an outcome",
}


def notes(
    contrasts: Sequence[ContrastReport], recorded: pa.Table, margin: Margin | None, post_hoc: bool
) -> tuple[str, ...]:
    """Write the notes.

    Args:
        contrasts: of the study and of its controls.
        recorded: the ``trials`` data set.
        margin: equivalence margin.
        post_hoc: whether the margin was given after the launch.

    Returns:
        tuple[str, ...]: sentences; the most general last.
    """
    own = [contrast for contrast in contrasts if contrast.control is None]
    found = [
        *_attainable(own),
        *_margin(margin, post_hoc),
        *(note for contrast in contrasts for note in _about(contrast)),
        *_controls(contrasts),
        *_mixed_code(recorded),
    ]
    tested = [contrast.effect.n for contrast in contrasts if contrast.effect.gap_interval.low is not None]
    if tested and min(tested) < FEW:
        found.append(
            f"Intervals are 95% BCa over blocks. With fewer than {FEW} blocks they promise too much: "
            "at 6 they hold the truth about 88% of the time, at 3 about 72%."
        )
    return tuple(dict.fromkeys([*found, _population(recorded)]))


def _attainable(own: Sequence[ContrastReport]) -> list[str]:
    """Say when no contrast can come out DIFFERENT: Holm starts with the smallest p, times the size of the family."""
    tests = [(c.effect.test.smallest, c.effect.n) for c in own if c.verdict.cause != "BITWISE EQUAL"]
    smallest = [(p, n) for p, n in tests if p is not None]
    if not smallest or min(smallest)[0] * len(own) < LEVEL:
        return []
    p, n = min(smallest)
    least = p_value(min(1.0, p * len(own)))
    return [
        f"With {plural(n, 'block')} and {plural(len(own), 'contrast')} no Holm-adjusted p can be below {least}: "
        "DIFFERENT is out of reach, whatever the outcomes. More blocks are needed."
    ]


def _margin(margin: Margin | None, post_hoc: bool) -> list[str]:
    if margin is None:
        return ["The grid fixes no margin, so no equivalence is claimed."]
    said = [f"The margin, {margin}, was given after the launch: equivalence is post hoc."] if post_hoc else []
    if margin.unit == "percent":
        said.append(
            f"The margin, {margin} of the reference's mean, is tested as a ratio: that mean's own spread counts."
        )
    return said


def _about(contrast: ContrastReport) -> list[str]:
    said = []
    if contrast.streams.mismatches and contrast.verdict.cause != "CONFOUNDED":
        streams = ", ".join(sorted({mismatch.stream for mismatch in contrast.streams.mismatches}))
        said.append(f"{contrast.label}: the factor itself changes {streams}; the gap is its whole effect.")
    for side in contrast.guard:
        if side.draws:
            said.append(
                f"{side.label} drew random numbers outside ctx.draw ({', '.join(side.draws)}): "
                "other arms may have drawn others."
            )
        if not side.batches:
            said.append(f"{side.label}: no batch was watched by the saved-tensor guard.")
    cells = {pair.cells for pair in contrast.pairs}
    if len(cells) > 1:
        said.append(
            f"{contrast.label}: blocks average {min(cells)} to {max(cells)} matched trials, since some are missing."
        )
    methods = (contrast.effect.test.method, contrast.effect.gap_interval.method)
    said += [f"{contrast.label}: {method}." for method in methods if "Monte Carlo" in method or "percentile" in method]
    return said


def _controls(contrasts: Sequence[ContrastReport]) -> list[str]:
    said = [
        f"{contrast.label}: an A/A pair that is not bitwise equal, first at batch {contrast.divergence.earliest}. "
        "This arm does not repeat itself, so a first differing batch says little."
        for contrast in contrasts
        if contrast.control == "A/A" and contrast.divergence.differing
    ]
    kinds = {contrast.control for contrast in contrasts}
    said += [f"{kind} control: {MEANING[kind]}." for kind in MEANING if kind in kinds]
    if "A/A" not in kinds:
        said.append("No A/A control (an arm with `repeat`): whether an arm repeats itself bit for bit is not known.")
    if "one-ulp" not in kinds:
        said.append(
            "No one-ulp control (`repeat` and `perturb: one-ulp`): what rounding alone does to the outcome is not "
            "known, so no gap is called SYSTEMATIC."
        )
    return said


def _mixed_code(recorded: pa.Table) -> list[str]:
    codes = {code for code in recorded["source_hash"].to_pylist() if code}
    return [f"Trials ran {number(len(codes))} different versions of the trainable's source."] if len(codes) > 1 else []


def _population(recorded: pa.Table) -> str:
    hosts = {host for host in recorded["host"].to_pylist() if host}
    where = "this machine" if len(hosts) <= 1 else f"these {len(hosts)} machines"
    return (
        f"The unit of replication is the block (seed): intervals and p speak of new seeds on {where} and this data, "
        "not of other machines. p: sign-flip test, Holm-adjusted over the study's contrasts; controls are not adjusted."
    )
