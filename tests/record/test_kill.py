"""kill -9 at random moments: what was acknowledged is read back, and the store heals."""

from __future__ import annotations

import os
import random
import signal
import time

import numpy as np
import pytest

from ablate.record.reader import Run
from ablate.record.recorder import Recorder
from ablate.record.store import Store
from tests.record.conftest import make_grid, make_spec, run_trial

KILLS = 50


def loss_at(k: int) -> float:
    return 1 / (k + 3)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_every_acknowledged_row_survives_kill_9(root):
    """The child says over a pipe that ``record`` returned; the parent kills it and compares."""
    chance = random.Random(20)
    spec = make_spec(batches=4)
    acknowledged: dict[int, int] = {}
    for kill in range(KILLS):
        with Store.open(root, make_grid(), b"study: demo\n") as store:
            attempt = store.next_attempt(spec.trial_id)
            assert attempt == kill + 1
            out, into = os.pipe()
            child = os.fork()
            if child == 0:
                recorder = Recorder(store.paths, spec, attempt)
                k = 0
                while True:
                    recorder.record(k, loss_at(k), 0.01, {"m": 1.0 * k})
                    os.write(into, b"x")
                    k += 1
            os.close(into)
            assert os.read(out, 1) == b"x"
            time.sleep(chance.random() * 0.02)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            count = 1
            while data := os.read(out, 1 << 16):
                count += len(data)
            os.close(out)
            acknowledged[attempt] = count
    with Store.open(root, make_grid(), b"study: demo\n") as store:
        assert store.recovered == [f"trial {spec.trial_id}, attempt {KILLS}: failed"]
        assert store.failures(spec.trial_id) == (0, KILLS)
        store.absorb(spec.trial_id, run_trial(store, spec))
    run = Run(root)
    rows = run.attempts()
    attempts, losses = rows["attempt"].to_numpy(), rows["loss"].to_numpy()
    for attempt, count in acknowledged.items():
        mine = losses[attempts == attempt]
        assert count <= len(mine) <= count + 1  # the last may have been written but not yet said
        assert np.array_equal(mine, [loss_at(k) for k in range(len(mine))])
    assert run.batches()["batch_index"].to_pylist() == [0, 1, 2, 3]
    assert sum(acknowledged.values()) > KILLS * 10
