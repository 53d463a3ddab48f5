"""Making a store's folders, and settling which grid the store belongs to."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from ablate.design.extend import differences
from ablate.design.spec import GridSpec, Outcome
from ablate.errors import BadInput, Problem
from ablate.record.disk import store_io, write_aside
from ablate.record.paths import StorePaths
from ablate.record.spec_file import SpecFile, read_spec, spec_hash, write_spec

_ELSEWHERE = "choose another folder"


def create_folders(paths: StorePaths) -> None:
    """Make the store's folders; its parent (``runs``) too, but nothing above it, lest a misspelt path become one.

    Raises:
        BadInput: if the path is a file, its grandparent is missing, or the folder holds something that is no store.
        StoreError: if the folder cannot be written.
    """
    root = paths.root
    with store_io(root):
        _check_place(paths, root.absolute())
        root.parent.mkdir(exist_ok=True)
        root.mkdir(exist_ok=True)
        for folder in paths.folders:
            folder.mkdir(exist_ok=True)


def settle_spec(paths: StorePaths, grid: GridSpec, grid_bytes: bytes) -> SpecFile:
    """Write ``grid.yaml`` and ``spec.json``, or check that ``grid`` equals or extends what the store belongs to.

    A store without any trial belongs to nobody yet: its launch was refused after the folder was made (bad data, a
    trainable that does not import), and the mended grid takes it over.

    Raises:
        BadInput: if it differs otherwise; each difference is named.
        StoreError: if the disk is full, read-only or fails, or ``spec.json`` is damaged or of a newer schema.
    """
    if not paths.spec_json.exists():
        return _take_over(paths, grid, grid_bytes)
    stored = read_spec(paths)
    if stored.hash == spec_hash(grid.model_dump_json()):
        return stored
    if not _holds_a_trial(paths):
        return _take_over(paths, grid, grid_bytes)
    before = GridSpec.model_validate_json(stored.grid)
    differing = differences(before, grid)
    if all(line.startswith("outcome") for line in differing) and not _was_recorded(paths, before.outcome):
        differing = []  # a misspelt outcome was never seen, so another one is no second look
    if differing:
        advice = "a store belongs to one grid, which may only grow: undo this, rename the study, or pass --runs FOLDER"
        found = "this store belongs to a grid that differs:\n      " + "\n      ".join(differing)
        raise BadInput(Problem(str(paths.root), found, advice=advice))
    write_aside(paths.grid_yaml, grid_bytes)
    return write_spec(paths, grid, (*stored.history, stored.hash))


def _take_over(paths: StorePaths, grid: GridSpec, grid_bytes: bytes) -> SpecFile:
    write_aside(paths.grid_yaml, grid_bytes)
    return write_spec(paths, grid, ())


def _was_recorded(paths: StorePaths, outcome: Outcome) -> bool:
    if outcome.evaluate is not None:
        files, column = [paths.trials] if paths.trials.exists() else [], f"evaluate.{outcome.evaluate}"
    else:
        files, column = paths.parts(paths.batches), "loss" if outcome.metric == "loss" else f"metric.{outcome.metric}"
    return any(column in pq.read_schema(file).names for file in files)


def _holds_a_trial(paths: StorePaths) -> bool:
    parts = (part for folder in (paths.batches, paths.audits, paths.attempts) for part in paths.parts(folder))
    return paths.trials.exists() or any(parts) or bool(paths.journal_attempts() or paths.logged_attempts())


def _check_place(paths: StorePaths, root: Path) -> None:
    for ancestor in (root, *root.parents):
        if ancestor.exists() and not ancestor.is_dir():
            raise BadInput(Problem(str(ancestor), "is a file, not a folder for a store", advice=_ELSEWHERE))
    if not root.parent.parent.is_dir():
        there = next(p for p in root.parents if p.is_dir())
        advice = f"make it (`mkdir -p '{root.parent}'`), or choose a folder in {there}"
        raise BadInput(Problem(str(root.parent), "is missing", advice=advice))
    if root.is_dir() and not paths.spec_json.exists():
        strangers = sorted(p.name for p in root.iterdir() if p.name not in paths.names)
        if strangers:
            found = f"holds other files ({', '.join(strangers[:3])}) and is no store"
            raise BadInput(Problem(str(root), found, advice=_ELSEWHERE))
