"""Compares kinds of machines, for a grid whose arms carry ``kind`` and ``machine``: over machines, not over trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from ablate.design.spec import GridSpec, level_text
from ablate.design.trial_spec import Scalar
from analysis.digits import plural
from analysis.holm import holm
from analysis.mixed_model import KindEffect, kind_effect
from analysis.outcomes import Outcome
from analysis.trials import Trial

Cell = tuple[tuple[str, Scalar], ...]


@dataclass(frozen=True)
class KindComparison:
    """Two kinds of machines, other minus reference, in one cell of the factors.

    Attributes:
        reference: the kind that the grid names first.
        other: the other kind.
        where: the factors' levels; empty without factors.
        machines: names of the machines with an outcome, of the reference and of the other.
        blocks: blocks in which a machine of either kind has an outcome.
        lost: machines' blocks left out, since a trial there has no outcome.
        reference_mean: mean outcome of the reference's machines; None without any.
        effect: the mixed model's answer; None if there is none.
        adjusted_p: its p, adjusted for all comparisons of kinds; None if there is none.
        reason: why there is no answer; empty if there is one.
        inseparable: whether that is because a kind has one machine, so that kind and machine cannot be told apart.
    """

    reference: str
    other: str
    where: Cell
    machines: tuple[tuple[str, ...], tuple[str, ...]]
    blocks: int
    lost: int
    reference_mean: float | None
    effect: KindEffect | None
    adjusted_p: float | None
    reason: str
    inseparable: bool

    @property
    def label(self) -> str:
        """What is compared: ``kind gpu against cpu``, and where."""
        where = ", ".join(f"{name}={level_text(level)}" for name, level in self.where)
        return f"kind {self.other} against {self.reference}" + (f" where {where}" if where else "")


def compare_kinds(
    grid: GridSpec, trials: Sequence[Trial], outcomes: Mapping[str, Outcome]
) -> tuple[KindComparison, ...]:
    """Compare every kind with the one that the grid names first, in every cell of the factors.

    A machine's value in a block is the mean over its arms; controls take no part. p is adjusted by Holm's procedure for
    these comparisons, which are a family of their own.

    Args:
        grid: the study.
        trials: all its planned trials.
        outcomes: by trial id.

    Returns:
        tuple[KindComparison, ...]: empty unless the arms carry at least two kinds.
    """
    arms = {name: arm for name, arm in grid.arms.items() if arm.kind is not None and not arm.control}
    kinds = list(dict.fromkeys(arm.kind for arm in arms.values()))
    own = [trial for trial in trials if trial.arm in arms]
    cells = list(dict.fromkeys(trial.factors for trial in own))
    found = []
    for other, cell in product(kinds[1:], cells):
        planned: dict[tuple[str, str, int], list[Outcome]] = {}
        for trial in own:
            arm = arms[trial.arm]
            if trial.factors == cell and arm.kind in (kinds[0], other):
                key = (str(arm.kind), str(arm.machine), trial.block)
                planned.setdefault(key, []).append(outcomes[trial.trial_id])
        found.append(_compare(str(kinds[0]), str(other), cell, planned))
    adjusted = holm([one.effect.p if one.effect else None for one in found])
    return tuple(replace(one, adjusted_p=p) for one, p in zip(found, adjusted, strict=True))


def _compare(
    reference: str, other: str, cell: Cell, planned: Mapping[tuple[str, str, int], Sequence[Outcome]]
) -> KindComparison:
    kept = {
        key: float(np.mean(values))
        for key, members in planned.items()
        if len(values := [one.value for one in members if one.value is not None]) == len(members)
    }
    names = [sorted({machine for kind, machine, _ in kept if kind == which}) for which in (reference, other)]
    blocks = sorted({block for _, _, block in kept})
    reason, inseparable = _why_not(reference, other, names, len(blocks))
    by_block = [{value for (*_, at), value in kept.items() if at == block} for block in blocks]
    if not reason and all(len(values) == 1 for values in by_block):
        reason = "all machines have the same outcome in every block"
    effect = None
    if not reason:
        machines = {name: position for position, name in enumerate([*names[0], *names[1]])}
        effect = kind_effect(
            np.array(list(kept.values()), dtype=np.float64),
            np.array([int(kind == other) for kind, _, _ in kept]),
            np.array([machines[machine] for _, machine, _ in kept]),
            np.array([blocks.index(block) for _, _, block in kept]),
        )
        reason = (
            "" if effect else "the outcomes do not vary enough, or are too few, to tell the model's variances apart"
        )
    means = [value for (kind, _, _), value in kept.items() if kind == reference]
    return KindComparison(
        reference=reference,
        other=other,
        where=cell,
        machines=(tuple(names[0]), tuple(names[1])),
        blocks=len(blocks),
        lost=len(planned) - len(kept),
        reference_mean=float(np.mean(means)) if means else None,
        effect=effect,
        adjusted_p=None,
        reason=reason,
        inseparable=inseparable,
    )


def _why_not(reference: str, other: str, names: Sequence[Sequence[str]], blocks: int) -> tuple[str, bool]:
    """Say why the model cannot be fitted, and whether kind and machine are inseparable; empty if it can."""
    both = sorted(set(names[0]) & set(names[1]))
    if both:
        return f"machine {', '.join(both)} has arms of both kinds: compare those arms, machine by machine", False
    few = [(kind, machines) for kind, machines in zip((reference, other), names, strict=True) if len(machines) < 2]
    if few:
        have = " and ".join(
            f"{kind} has one machine ({machines[0]})" if machines else f"{kind} has no machine with an outcome"
            for kind, machines in few
        )
        return f"{have}, so what is the kind's and what is the machine's own cannot be separated", True
    return ("" if blocks > 1 else f"{plural(blocks, 'block')} of at least 2"), False
