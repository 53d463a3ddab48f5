"""``ablate import``: what another tool left behind becomes a store that every command reads."""

from __future__ import annotations

import math
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ablate.design.cross import trials as planned_trials
from ablate.design.grid_file import FACTOR_NAME
from ablate.design.spec import GridSpec
from ablate.design.trial_spec import TrialSpec
from ablate.errors import BadInput, Problem
from ablate.record.disk import store_io
from ablate.record.foreign.csv_losses import read_csv
from ablate.record.foreign.grid import cell_of, factor_names, grid_of
from ablate.record.foreign.ray_tune import read_tune, trial_folders
from ablate.record.foreign.trial import ForeignTrial, Names
from ablate.record.recorder import Recorder
from ablate.record.store import Store


@dataclass(frozen=True)
class BroughtIn:
    """What was imported.

    Attributes:
        root: the new store.
        trials: trials with losses.
        rows: batches.
        ended_early: trials with fewer batches than the longest one; they have no outcome.
    """

    root: Path
    trials: int
    rows: int
    ended_early: int


def bring_in(
    path: Path, study: str, runs: Path, names: Names, question: str, reference: str | None, last: int, command: str
) -> BroughtIn:
    """Make a store of trials that ablate did not run, all or nothing.

    Args:
        path: a CSV file or a Ray Tune experiment's folder.
        study: name of the new study.
        runs: folder of all runs.
        names: which columns or parameters hold what.
        question: what the study asks.
        reference: the arm that others are compared with; the first if None.
        last: how many of the last batches the outcome averages.
        command: the command line, kept in the store's ``grid.yaml``.

    Raises:
        BadInput: the name is taken or malformed, or what is there cannot be understood; file and line are named.
        StoreError: the disk is full, read-only or fails.
    """
    root = runs / study
    if not re.fullmatch(FACTOR_NAME, study):
        raise BadInput(Problem("--study", f'found "{study}"', "a lower-case letter, then letters, digits and _"))
    if root.exists():
        raise BadInput(Problem(str(root), "is there already", advice="Choose another --study, or delete it."))
    if not path.exists():
        raise BadInput(Problem(str(path), "is missing"))
    if path.is_dir() and not trial_folders(path):
        found = "is no Ray Tune experiment: no trial's result.json or progress.csv is in it"
        raise BadInput(Problem(str(path), found, "such a folder, or a CSV file"))
    kind = "a Ray Tune experiment" if path.is_dir() else "a CSV of losses"
    trials = read_tune(path, names) if path.is_dir() else read_csv(path, names)
    grid = grid_of(trials, study, question, str(path), kind, reference, last)
    aside = runs / f"{study}.importing-{os.getpid()}"
    try:
        rows, short = _write(aside, grid, trials, command)
        with store_io(root):
            aside.rename(root)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    return BroughtIn(root, sum(bool(trial.losses) for trial in trials), rows, short)


def _write(root: Path, grid: GridSpec, trials: Sequence[ForeignTrial], command: str) -> tuple[int, int]:
    names = factor_names(trials)
    specs = {(s.arm, s.block, tuple(s.factors.items())): s for s in planned_trials(grid)}
    numbered = any(list(trial.steps) != list(range(len(trial.steps))) for trial in trials)
    rows = short = 0
    with Store.open(root, grid, _grid_yaml(grid, command)) as store:
        for trial in trials:
            if not trial.losses:
                continue
            spec = specs[trial.arm, trial.block, tuple(cell_of(trial, names, grid.factors).items())]
            rows += len(trial.losses)
            short += not _record(store, spec, trial, numbered)
    return rows, short


def _record(store: Store, spec: TrialSpec, trial: ForeignTrial, numbered: bool) -> bool:
    """Write one trial and say whether it came to its end."""
    durations = trial.durations or [math.nan] * len(trial.losses)
    whole = len(trial.losses) == spec.batches
    diverged = not whole and not math.isfinite(trial.losses[-1])
    with Recorder(store.paths, spec, 1) as recorder:
        for at, (step, loss, seconds) in enumerate(zip(trial.steps, trial.losses, durations, strict=True)):
            recorder.record(at, loss, seconds, {"step": float(step)} if numbered else {})
        if whole or diverged:
            recorder.finish("done" if whole else "diverged", **trial.facts)
        else:
            found = f"{trial.where}: ends after {len(trial.losses)} of {spec.batches} batches"
            recorder.finish("failed", failure_kind="interrupted", error=found, **trial.facts)
    store.absorb(spec.trial_id, 1)
    return whole or diverged


def _grid_yaml(grid: GridSpec, command: str) -> bytes:
    assert grid.imported is not None, "made by grid_of"
    lines = (
        f"# Imported from {grid.imported.kind}, not launched by ablate.",
        "# Initial weights, data and draws were not recorded.",
        f"# {command}",
        f"study: {grid.study}",
    )
    return ("\n".join(lines) + "\n").encode()
