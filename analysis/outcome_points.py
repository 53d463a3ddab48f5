"""Every trial's outcome by arm, machine and cell, with the mean and its interval: what the paper's figure shows."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ablate.design.spec import GridSpec
from analysis.bca import Interval, mean_interval
from analysis.cells import Cell, in_grid_order
from analysis.outcomes import Outcome
from analysis.trials import Trial

MACHINE = ("host", "cpu_model", "device", "moved_from")
"""Columns of ``trials`` that say where a trial ran."""


@dataclass(frozen=True)
class OutcomeGroup:
    """Outcomes of one arm on one machine in one cell. The unit is the block: the interval speaks of new seeds there.

    Attributes:
        arm: the arm's name.
        machine: where its trials ran, in words; empty if that was not recorded.
        cell: levels of the factors.
        values: one outcome per block, by block.
        planned: trials planned; those without an outcome are missing from ``values``.
        mean: mean of ``values``.
        interval: 95 % interval of the mean over blocks.
    """

    arm: str
    machine: str
    cell: Cell
    values: tuple[float, ...]
    planned: int
    mean: float
    interval: Interval


def outcome_groups(
    grid: GridSpec,
    trials: Sequence[Trial],
    outcomes: Mapping[str, Outcome],
    machines: Mapping[str, str],
    seed: int = 0,
) -> tuple[OutcomeGroup, ...]:
    """Group outcomes by arm, cell and machine, in the grid's order; a group without any outcome is left out.

    Args:
        grid: the study.
        trials: all planned trials.
        outcomes: by trial id.
        machines: trial id -> machine in words.
        seed: seed of the intervals' resampling.
    """
    members: dict[tuple[str, Cell, str], list[Trial]] = defaultdict(list)
    planned: dict[tuple[str, Cell], int] = defaultdict(int)
    for trial in trials:
        planned[trial.arm, trial.factors] += 1
        if outcomes[trial.trial_id].value is not None:
            members[trial.arm, trial.factors, machines.get(trial.trial_id, "")].append(trial)
    groups = []
    cells = in_grid_order((cell for _, cell, _ in members), grid.factors)
    order = {key: (list(grid.arms).index(key[0]), cells.index(key[1]), key[2]) for key in members}
    for arm, cell, machine in sorted(members, key=order.__getitem__):
        own = members[arm, cell, machine]
        ordered = sorted(own, key=lambda trial: trial.block)
        values = [value for trial in ordered if (value := outcomes[trial.trial_id].value) is not None]
        interval = mean_interval(np.array(values), seed)
        groups.append(
            OutcomeGroup(arm, machine, cell, tuple(values), planned[arm, cell], float(np.mean(values)), interval)
        )
    return tuple(groups)


def machine_words(row: Mapping[str, Any]) -> str:
    """Return a trial's machine in words: ``host, processor``, and its accelerator, if it used one; all if it moved.

    Args:
        row: of a trial, the columns ``MACHINE``, as far as they were recorded.
    """
    device = str(row.get("device") or "")
    parts = [str(row[name]) for name in ("host", "cpu_model") if row.get(name)]
    if device and not device.startswith("cpu"):
        parts.append(_device(device))
    earlier = f"{row['moved_from']}; then " if row.get("moved_from") else ""
    return earlier + ", ".join(parts)


def _device(text: str) -> str:
    """Return a device's name; some are recorded as JSON with further facts."""
    try:
        content = json.loads(text)
    except ValueError:
        return text
    return str(content.get("name", text)) if isinstance(content, dict) else text
