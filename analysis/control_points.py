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
    """One contrast of arms.

    Attributes:
        label: the contrast.
        columns: arms: the reference, the other, then the controls of either, those with most
            blocks first; each with its kind of control, if any.
        lines: one for each block and cell: its outcome in each column, None where there is none.
    """

    label: str
    columns: tuple[tuple[str, str], ...]
    lines: tuple[Line, ...]


def side_by_side(grid: GridSpec, trials: Sequence[Trial], outcomes: Mapping[str, Outcome]) -> tuple[SideBySide, ...]:
    """Return every contrast of arms that has an outcome, in the grid's order.

    Args:
        grid: the study.
        trials: all planned trials.
        outcomes: by trial id.
    """
    found = []
    for contrast in grid.contrasts:
        if contrast.arms is None or any(grid.arms[name].control for name in contrast.arms):
            continue
        reference, other = contrast.arms
        controls = [name for name, arm in grid.arms.items() if arm.repeat in (reference, other)]
        controls.sort(key=lambda name: len(grid.arms[name].blocks), reverse=True)
        names = (reference, other, *controls)
        lines = _lines(names, trials, outcomes)
        if lines:
            columns = tuple((name, str(arm_control(grid.arms[name]) or "")) for name in names)
            found.append(SideBySide(contrast.label, columns, lines))
    return tuple(found)


def _lines(names: Sequence[str], trials: Sequence[Trial], outcomes: Mapping[str, Outcome]) -> tuple[Line, ...]:
    lines: dict[tuple[int, Cell], dict[str, float | None]] = {}
    for trial in trials:
        if trial.arm in names:
            lines.setdefault((trial.block, trial.factors), {})[trial.arm] = outcomes[trial.trial_id].value
    found = [tuple(line.get(name) for name in names) for line in lines.values()]
    return tuple(line for line in found if any(value is not None for value in line))
