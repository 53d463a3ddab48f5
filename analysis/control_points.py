"""The outcomes of a contrast's arms beside those of their controls, block by block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ablate.design.spec import GridSpec
from analysis.cells import Cell
from analysis.controls import arm_control
from analysis.outcomes import Outcome
from analysis.trials import Trial

Line = tuple[float | None, ...]


@dataclass(frozen=True)
class SideBySide:
    """One contrast of arms, or an arm that stands in none, with the controls.

    Attributes:
        label: the contrast, or the arm.
        columns: arms: the reference and the other (or the one), then the controls of either, those with most blocks
            first; each with its kind of control, if any.
        lines: one for each block and cell: its outcome in each column, None where there is none.
    """

    label: str
    columns: tuple[tuple[str, str], ...]
    lines: tuple[Line, ...]


def side_by_side(grid: GridSpec, trials: Sequence[Trial], outcomes: Mapping[str, Outcome]) -> tuple[SideBySide, ...]:
    """Return every contrast of arms that has an outcome, then every other arm with a control, in the grid's order.

    Args:
        grid: the study.
        trials: all planned trials.
        outcomes: by trial id.
    """
    compared: list[tuple[str, tuple[str, ...]]] = [
        (one.label, one.arms)
        for one in grid.contrasts
        if one.arms and not any(grid.arms[name].control for name in one.arms)
    ]
    alone = [name for name in grid.arms if not any(name in arms for _, arms in compared)]
    repeated = {arm.repeat for arm in grid.arms.values()}
    found = []
    for label, arms in [*compared, *((f"arm {name}", (name,)) for name in alone if name in repeated)]:
        controls = [name for name, arm in grid.arms.items() if arm.repeat in arms]
        controls.sort(key=lambda name: len(grid.arms[name].blocks), reverse=True)
        names = (*arms, *controls)
        lines = _lines(names, trials, outcomes)
        if lines:
            columns = tuple((name, str(arm_control(grid.arms[name]) or "")) for name in names)
            found.append(SideBySide(label, columns, lines))
    return tuple(found)


def _lines(names: Sequence[str], trials: Sequence[Trial], outcomes: Mapping[str, Outcome]) -> tuple[Line, ...]:
    lines: dict[tuple[int, Cell], dict[str, float | None]] = {}
    for trial in trials:
        if trial.arm in names:
            lines.setdefault((trial.block, trial.factors), {})[trial.arm] = outcomes[trial.trial_id].value
    found = [tuple(line.get(name) for name in names) for line in lines.values()]
    return tuple(line for line in found if any(value is not None for value in line))
