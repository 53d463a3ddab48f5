"""From trials that ablate did not run to the grid that a store of them belongs to."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product

from ablate.design.grid_file import FACTOR_NAME
from ablate.design.spec import Arm, Cell, Contrast, GridSpec, Imported, Outcome
from ablate.design.trial_spec import GuardPlan, Numerics, Scalar
from ablate.errors import BadInput, Problem, nearest
from ablate.record.foreign.trial import ForeignTrial

TRAINABLE = "(imported)"


def factor_names(trials: Sequence[ForeignTrial]) -> dict[str, str]:
    """Return what each factor is called in the store, where names are lower case without signs.

    Raises:
        BadInput: two factors would have one name.
    """
    names: dict[str, str] = {}
    for given in dict.fromkeys(name for trial in trials for name in trial.factors):
        made = re.sub(r"[^a-z0-9]+", "_", given.lower()).strip("_")
        made = made if re.fullmatch(FACTOR_NAME, made) else f"factor_{made}"
        if made in names.values():
            raise BadInput(Problem(trials[0].where, f"factors {given!r} and another would both be called {made!r}"))
        names[given] = made
    return names


def grid_of(
    trials: Sequence[ForeignTrial], study: str, question: str, source: str, kind: str, reference: str | None, last: int
) -> GridSpec:
    """Return the grid.

    Args:
        trials: all of them.
        study: its name.
        question: what it asks.
        source: the file or folder.
        kind: what that is, in words.
        reference: the arm that all others are compared with; the first if None.
        last: how many of the last batches the outcome averages.

    Raises:
        BadInput: there is no such arm, a trial is there twice, or no trial has any loss.
    """
    arms = list(dict.fromkeys(trial.arm for trial in trials))
    if reference is not None and reference not in arms:
        allowed = ", ".join(arms)
        raise BadInput(Problem("--reference", f'found "{reference}"', allowed, nearest(reference, arms)))
    _unique(trials)
    longest = max(len(trial.losses) for trial in trials)
    if not longest:
        raise BadInput(Problem(source, "no trial reported any loss"))
    names = factor_names(trials)
    levels = {made: _levels([trial.factors[given] for trial in trials]) for given, made in names.items()}
    compared = reference or arms[0]
    return GridSpec(
        study=study,
        question=question,
        trainable=TRAINABLE,
        settings={},
        factors=levels,
        cells=_cells(trials, names, levels, arms),
        arms={name: _arm(name, trials) for name in arms},
        blocks=tuple(sorted({trial.block for trial in trials})),
        batches=longest,
        outcome=Outcome(last=min(last, longest)),
        contrasts=tuple(Contrast(arms=(compared, name)) for name in arms if name != compared),
        guard=GuardPlan(first=0, every=0),
        imported=Imported(source=source, kind=kind, digits=max(trial.digits for trial in trials)),
    )


def cell_of(trial: ForeignTrial, names: dict[str, str], levels: dict[str, tuple[Scalar, ...]]) -> dict[str, Scalar]:
    """Return a trial's levels under the store's names and types."""
    return {made: _as(trial.factors[given], levels[made]) for given, made in names.items()}


def _unique(trials: Sequence[ForeignTrial]) -> None:
    seen: dict[tuple[object, ...], str] = {}
    for trial in trials:
        key = (trial.arm, trial.block, *sorted((name, str(level)) for name, level in trial.factors.items()))
        if key in seen:
            advice = "Repeats need different blocks. Is there another setting that tells them apart?"
            raise BadInput(Problem(trial.where, f"{trial.name} is there twice, first in {seen[key]}", advice=advice))
        seen[key] = trial.where


def _arm(name: str, trials: Sequence[ForeignTrial]) -> Arm:
    blocks = tuple(sorted({trial.block for trial in trials if trial.arm == name}))
    return Arm(numerics=Numerics(), settings={}, resources={}, blocks=blocks)


def _levels(found: Sequence[Scalar]) -> tuple[Scalar, ...]:
    """Return the different levels, of one type: whole and broken numbers become broken, anything else text."""
    kinds = {type(level) for level in found}
    if len(kinds) > 1:
        found = [float(level) if kinds <= {int, float} else str(level) for level in found]
    different = list(dict.fromkeys(found))
    return tuple(different if isinstance(different[0], str) else sorted(different))


def _as(level: Scalar, levels: tuple[Scalar, ...]) -> Scalar:
    return level if type(level) is type(levels[0]) else float(level) if isinstance(levels[0], float) else str(level)


def _cells(
    trials: Sequence[ForeignTrial], names: dict[str, str], levels: dict[str, tuple[Scalar, ...]], arms: Sequence[str]
) -> tuple[Cell, ...] | None:
    """Return which arms met which levels; None where every arm met all of them."""
    met: dict[tuple[Scalar, ...], set[str]] = {}
    for trial in trials:
        met.setdefault(tuple(cell_of(trial, names, levels).values()), set()).add(trial.arm)
    every = list(product(*levels.values()))
    if len(met) == len(every) and all(len(found) == len(arms) for found in met.values()):
        return None
    return tuple(
        Cell(factors=dict(zip(levels, one, strict=True)), arms=tuple(arm for arm in arms if arm in met[one]))
        for one in every
        if one in met
    )
