"""What a reader must know to read a gap report right."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from ablate.design.attainable import LEVEL
from ablate.design.spec import Margin
from analysis.assumptions import assumption_words
from analysis.bca import few_words
from analysis.contrast import ContrastReport
from analysis.digits import number, p_value, plural


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
        *_draws(contrasts),
        *_planned(own),
        *_controls(contrasts),
        *_mixed_code(recorded),
        *_moved(recorded),
        *taken_for_granted(contrasts),
    ]
    return tuple(dict.fromkeys([*found, _population(recorded)]))


def taken_for_granted(contrasts: Sequence[ContrastReport]) -> list[str]:
    """Return what the tests and intervals of these contrasts take for granted, where something rests on them."""
    return [
        *assumption_words(contrast.verdict.size for contrast in contrasts),
        *few_words(contrast.effect.n for contrast in contrasts if contrast.effect.gap_interval.low is not None),
    ]


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
            f"The margin is {margin} of the reference's mean; the test allows for the uncertainty of that mean."
        )
    return said


def _about(contrast: ContrastReport) -> list[str]:
    said = []
    if contrast.streams.mismatches and contrast.verdict.cause != "CONFOUNDED":
        streams = ", ".join(sorted({mismatch.stream for mismatch in contrast.streams.mismatches}))
        said.append(f"{contrast.label}: the factor itself changes {streams}; the gap is its whole effect.")
    for side in contrast.guard:
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


def _draws(contrasts: Sequence[ContrastReport]) -> list[str]:
    """Return one note for all arms whose draws bypassed the streams, grouped by what was drawn."""
    found: dict[str, list[str]] = {}
    for side in (side for contrast in contrasts for side in contrast.guard):
        sides = found.setdefault(", ".join(side.draws), [])
        sides += [side.label] if side.label not in sides else []
    found.pop("", None)
    if not found:
        return []
    who = "; ".join(f"{', '.join(sides)} ({draws})" for draws, sides in found.items())
    return [
        f"Random numbers were drawn outside the study's streams in {who}: arms may have drawn different ones. Use "
        "`draw`, which a class gets in `batches(draw)`, or `ctx.draw` in a function."
    ]


def _planned(own: Sequence[ContrastReport]) -> list[str]:
    if not any("would be enough" in contrast.verdict.sentence for contrast in own):
        return []
    return ["Numbers of blocks that would be enough are planned for a 90% chance, with the spread seen so far."]


def _controls(contrasts: Sequence[ContrastReport]) -> list[str]:
    said = [
        f"{contrast.label}: an A/A pair that is not bitwise equal, first at batch {contrast.divergence.earliest}. "
        "This arm does not repeat itself, so a first differing batch says little."
        for contrast in contrasts
        if contrast.control == "A/A" and contrast.divergence.differing
    ]
    kinds = {contrast.control for contrast in contrasts}
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


def _moved(recorded: pa.Table) -> list[str]:
    """Say of each arm which trials were computed by several machines, so that what its machine is, is mixed."""
    if "moved_from" not in recorded.column_names:  # a store of an earlier version
        return []
    rows = recorded.select(["arm", "block", "host", "resumed_at", "moved_from"]).to_pylist()
    said = []
    for arm in dict.fromkeys(row["arm"] for row in rows if row["moved_from"]):
        own = [row for row in rows if row["arm"] == arm]
        moved = [row for row in own if row["moved_from"]]
        first = moved[0]
        said.append(
            f"{number(len(moved))} of arm {arm}'s {plural(len(own), 'trial')} {'was' if len(moved) == 1 else 'were'} "
            f"continued on another machine (block {first['block']}: {first['moved_from']}, from batch "
            f"{first['resumed_at']} {first['host']}): their arithmetic is of several machines, and so may a gap be."
        )
    return said


def _population(recorded: pa.Table) -> str:
    hosts = {host for host in recorded["host"].to_pylist() if host}
    where = "this machine" if len(hosts) <= 1 else f"these {len(hosts)} machines"
    return (
        f"The unit of replication is the block (seed): intervals and p speak of new seeds on {where} and this data, "
        "not of other machines."
    )
