"""A store at a URI seen by whoever reads it: fetched into a folder of this machine, as of the last commit."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from ablate.errors import BadInput, Problem, StoreError, nearest
from ablate.record.lock import is_held
from ablate.record.manifest import NAME as MANIFEST
from ablate.record.paths import StorePaths
from ablate.record.pull import pull_data, pull_journals
from ablate.remote.lease import live_owner
from ablate.remote.location import child, name_of, parent, reading_copy, working_copy
from ablate.remote.objects import Objects

if TYPE_CHECKING:
    from ablate.record.reader import Run


def fetched(uri: str) -> Path:
    """Fetch what this machine does not have yet of the run at ``uri``, and return the folder that it lies in.

    Raises:
        BadInput: if there is no run; the nearest one is named.
        StoreError: if the store refuses, does not answer, or lacks an object.
    """
    objects = Objects(uri)
    if objects.size(MANIFEST) is None and objects.size("spec.json") is None:
        raise BadInput(_no_run(uri))
    paths = StorePaths(reading_copy(uri))
    paths.root.mkdir(parents=True, exist_ok=True)
    pull_data(objects, paths, also_uncommitted=False)
    return paths.root


def look(uri: str, paths: StorePaths) -> str:
    """Fetch what is new, journals of running trials too, and say who writes the store; empty if nobody does.

    Args:
        uri: the store.
        paths: the folder that ``fetched`` gave.

    Raises:
        StoreError: if the store refuses, does not answer, or lacks an object.
    """
    objects = Objects(uri)
    pull_data(objects, paths, also_uncommitted=False)
    paths.journal.mkdir(exist_ok=True)
    there = set(pull_journals(objects, paths))
    for key in set(paths.journal_attempts()) - there:
        for path in paths.journal_files(*key):
            path.unlink(missing_ok=True)
    owner = live_owner(objects)
    return str(owner) if owner else ""


def launch_lock(run: Run) -> Path:
    """Return the lock file that a launch of a run holds on this machine.

    Raises:
        StoreError: if the run is at a URI and its launch is on another machine: where, and which process.
    """
    if run.uri is None:
        return run.paths.lock
    lock = StorePaths(working_copy(run.uri)).lock
    owner = None if is_held(lock) else live_owner(Objects(run.uri))
    if owner:
        found = f"its launch is {owner}, not a process of this machine"
        advice = f"end it there: kill -INT {owner.pid}"
        raise StoreError(Problem(run.uri.partition("?")[0], found, advice=advice))
    return lock


def _no_run(uri: str) -> Problem:
    above = Objects(parent(uri))
    beside = list(islice((name for name in above.folders() if above.size(f"{name}/{MANIFEST}") is not None), 20))
    close = nearest(name_of(uri), beside)
    advice = f"runs there: {', '.join(beside)}" if beside else f"`ablate launch grid.yaml --runs {above.uri}` makes one"
    near = child(above.uri, close) if close else ""
    return Problem(uri, "there is no run", nearest=near, advice=advice)
