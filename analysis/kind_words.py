"""A comparison of kinds of machines in words: a note of a report, and a line of a contrast's evidence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from ablate.design.attainable import LEVEL
from ablate.design.spec import Contrast, GridSpec
from analysis.digits import interval_words, number, p_words, percent, plural, signed
from analysis.kinds import KindComparison
from analysis.mixed_model import FEWEST_MACHINES, KindEffect
from analysis.undecided import HOLM

METHOD = (
    "Kinds are compared by a mixed model with machine nested in kind: trials on one machine are no independent "
    "evidence about its kind. Machines are taken as drawn at random from those of their kind, and the answer speaks of "
    "new machines and new seeds."
)
FEW = f"With fewer than {FEWEST_MACHINES} machines of a kind only a gap many times their scatter can be shown."


def kind_notes(found: Sequence[KindComparison], grid: GridSpec, recorded: pa.Table) -> list[str]:
    """Return a note for each comparison, and what must be said of all; empty without any.

    Args:
        found: the comparisons.
        grid: the study.
        recorded: the ``trials`` data set, for the hosts.
    """
    if not found:
        return []
    notes = [kind_note(one) for one in found]
    fewest = min((len(names) for one in found if one.effect for names in one.machines), default=None)
    if fewest is not None:
        notes.append(METHOD)
        notes += [FEW] if fewest < FEWEST_MACHINES else []
    return notes + _shared_hosts(grid, recorded)


def kind_note(one: KindComparison) -> str:
    """Put one comparison in words, full sentences."""
    words = kind_answer(one)
    said = [f"{words[:1].upper()}{words[1:]}."]
    if one.inseparable:
        said.append("A gap between them is one of these machines. At least 2 of each kind are needed; 4 show far more.")
    if one.effect:
        said.append(_spread(one, one.effect))
    if one.lost:
        said.append(f"{plural(one.lost, 'block')} of a machine left out: a trial there has no outcome.")
    return " ".join(said)


def kind_answer(one: KindComparison) -> str:
    """Return what is known of the kinds, without a full stop."""
    if one.effect is None:
        return f"{one.label}: no mixed model: {one.reason}"
    counts = " and ".join(
        f"{plural(len(names), 'machine')} of kind {kind}"
        for kind, names in zip((one.reference, one.other), one.machines, strict=True)
    )
    different = one.adjusted_p is not None and one.adjusted_p < LEVEL
    shown = "the kinds differ" if different else "no difference between the kinds is shown"
    p = p_words(one.adjusted_p, "p" if one.adjusted_p == one.effect.p else HOLM)
    freedom = number(one.effect.freedom, 2)
    degrees = f"{freedom} degree{'' if freedom == '1' else 's'} of freedom"
    blocks = plural(one.blocks, "block")
    return f"{one.label}: {shown}: {gap(one)} over {blocks} on {counts} ({p}, t with {degrees})"


def gap(one: KindComparison) -> str:
    """Return difference and 95 % interval, where the reference's mean is above 0 in percent of it, taken as known."""
    effect, mean = one.effect, one.reference_mean
    assert effect is not None, "called with an answer"
    if mean is not None and mean > 0:
        ends = interval_words(effect.low / mean, effect.high / mean, as_percent=True)
        return f"{percent(effect.difference / mean)} {ends}"
    return f"{signed(effect.difference)} {interval_words(effect.low, effect.high)}"


def kind_evidence(contrast: Contrast, grid: GridSpec, found: Sequence[KindComparison]) -> str:
    """Say of a contrast of arms of two kinds what it can tell of the kinds; empty for any other.

    Args:
        contrast: as the grid resolved it.
        grid: the study.
        found: the comparisons of kinds.
    """
    if contrast.arms is None:
        return ""
    reference, other = (grid.arms[name] for name in contrast.arms)
    if reference.kind is None or other.kind is None or reference.kind == other.kind:
        return ""
    if reference.machine == other.machine:
        return (
            f"both arms are on machine {reference.machine}: a gap is one of their kinds there, and on no other machine"
        )
    kinds = {reference.kind, other.kind}
    about = [one for one in found if {one.reference, one.other} == kinds and _meets(contrast.where, one)]
    words = (
        f"kind {other.kind} on machine {other.machine} against kind {reference.kind} on machine {reference.machine}: "
        "one machine of each, so this gap cannot tell the kinds from these machines"
    )
    return "; ".join([words, *(kind_answer(one) for one in about)])


def _meets(where: dict[str, Any], one: KindComparison) -> bool:
    cell = dict(one.where)
    return all(cell.get(name) == level for name, level in where.items())


def _spread(one: KindComparison, effect: KindEffect) -> str:
    """Return the standard deviations; one that is next to nothing beside the largest is 0 but for the optimiser."""
    nothing = 1e-4 * max(*effect.machine_sd, effect.seed_sd, effect.trial_sd)
    first, second, seeds, trials = (
        number(sd if sd > nothing else 0.0, 2) for sd in (*effect.machine_sd, effect.seed_sd, effect.trial_sd)
    )
    return (
        f"Standard deviations: between machines {first} ({one.reference}) and {second} ({one.other}), between seeds of "
        f"what a kind shares {seeds}, between trials beside {trials}."
    )


def _shared_hosts(grid: GridSpec, recorded: pa.Table) -> list[str]:
    """Say where what the grid calls several machines trained on one host: then they are several by name only."""
    on: dict[str, set[str]] = {}
    for arm, host in zip(recorded["arm"].to_pylist(), recorded["host"].to_pylist(), strict=True):
        machine = grid.arms[arm].machine if arm in grid.arms and not grid.arms[arm].control else None
        if machine is not None and host:
            on.setdefault(host, set()).add(machine)
    return [
        f"Machines {', '.join(sorted(names))} all trained on host {host}: they are several by the grid's word only."
        for host, names in sorted(on.items())
        if len(names) > 1
    ]
