"""Fifty trials, each killed by signal 9 at a moment of its own: no acknowledged row is lost, the launch completes."""

from __future__ import annotations

import os
import random
import signal
import time

import pytest

from ablate.record.journal import read_identity, rows_written
from ablate.record.paths import StorePaths
from ablate.record.reader import Run
from tests.conftest import whole

TRIALS = 50
BATCHES = 40
STEP_S = 0.02
SEED = 20261130


@pytest.mark.slow
def test_fifty_kills_at_random_moments_lose_no_acknowledged_row(place):
    moments = random.Random(SEED)
    place.grid("arms: {slow: {}}\n", batches=BATCHES, settings=f"{{step_s: {STEP_S}}}", blocks=TRIALS)
    process = place.start("launch", "grid.yaml", "--local")
    paths, due, acknowledged = StorePaths(place.root()), {}, {}
    while process.poll() is None:
        for key in paths.journal_attempts() if paths.journal.is_dir() else ():
            if key.attempt > 1:
                continue
            # somewhere between its first look at the data and its last batch
            due.setdefault(key, time.monotonic() + moments.uniform(0.0, 0.8 * BATCHES * STEP_S))
            if key not in acknowledged and time.monotonic() >= due[key] and (pid := _pid(paths, key)):
                os.kill(pid, signal.SIGKILL)
                acknowledged[key] = rows_written(paths.rows(*key)) or 0
        time.sleep(0.002)
    done = place.finish(process)
    assert done.code == 0, done.text
    assert len(acknowledged) == TRIALS
    assert done.words.count("its process died by signal 9: tried again as attempt 2") == TRIALS
    assert len(set(acknowledged.values())) > 10  # the moments were different ones

    assert whole(place.root(), batches=BATCHES) == TRIALS
    kept = Run(place.root()).attempts(["trial_id", "attempt", "batch_index"]).to_pylist()
    for (trial_id, attempt), rows in acknowledged.items():
        found = [row["batch_index"] for row in kept if (row["trial_id"], row["attempt"]) == (trial_id, attempt)]
        assert found[:rows] == list(range(rows)), f"{trial_id} had acknowledged {rows} rows"


def _pid(paths: StorePaths, key: tuple[str, int]) -> int | None:
    """Return the trial's process while it runs; None before its journal is there and once it has ended."""
    rows = paths.rows(*key)
    try:
        pid = read_identity(rows).get("pid")
    except OSError:
        return None
    return pid if pid and not paths.trial_json(*key).exists() and os.path.exists(f"/proc/{pid}") else None
