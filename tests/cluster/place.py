"""Launches against a small cluster, from a folder of the tests' own."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress

from ablate.errors import StoreError
from ablate.record.journal import read_identity, rows_written
from ablate.record.paths import AttemptKey, StorePaths
from ablate.record.reader import Run
from tests.conftest import Done, Workplace, wait_for

BATCHES = 40


def start(place: Workplace, cluster, grid: str, batches: int = BATCHES, **keys):
    """Start a launch on the cluster, of slow doubles."""
    place.grid(grid, batches=batches, **{"settings": "{step_s: 0.1}", **keys})
    return place.start("launch", "grid.yaml", "--address", cluster.address, env={"RAY_AUTH_MODE": "disabled"})


def hosts(place: Workplace, rows: int = 3) -> dict[AttemptKey, str]:
    """Return where each attempt runs that has acknowledged so many rows."""
    paths = StorePaths(place.root())
    found = {}
    for key in paths.journal_attempts() if paths.journal.is_dir() else ():
        with suppress(StoreError):  # it was taken in meanwhile
            if (rows_written(paths.rows(*key)) or 0) >= rows and not paths.trial_json(*key).exists():
                found[key] = read_identity(paths.rows(*key))["host"]
    return found


def under_way(
    place: Workplace, process, count: int, within_s: float = 300.0, lost: Collection[AttemptKey] = ()
) -> dict[AttemptKey, str]:
    """Wait until so many attempts have rows, beside those ``lost``, which the launch may not have missed yet."""

    def look():
        assert process.poll() is None, process.communicate()
        found = {key: host for key, host in hosts(place).items() if key not in lost}
        return found if len(found) >= count else None

    return wait_for(look, within_s)


def losses(root) -> list[tuple[str, int, str]]:
    """Return every loss of a store, bit for bit."""
    rows = Run(root).batches(["trial_id", "batch_index", "loss"]).to_pylist()
    return sorted((row["trial_id"], row["batch_index"], row["loss"].hex()) for row in rows)


def undisturbed(place: Workplace, *tags: str) -> Done:
    """Run the same grid beside, on this machine and without its sleeps; ``losses`` of ``beside`` are then compared."""
    offers = [word for tag in tags for word in ("--offer", tag)]
    words = ("launch", "grid.yaml", "--local", "--runs", "beside", *offers)
    return place.finish(place.start(*words, env={"DOUBLES_WELL": "1"}), 600)  # 300 trials after the soak


def rows_of(place: Workplace) -> dict[str, dict]:
    """Return the table of trials by id."""
    return {row["trial_id"]: row for row in Run(place.root()).trials().to_pylist()}
