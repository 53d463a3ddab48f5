"""kill -9 at random moments: what was acknowledged is read back, and the store heals."""

from __future__ import annotations

import os
import random
import signal
import time

import numpy as np
import pytest

from ablate.record.check import check
from ablate.record.json_lines import read_lines
from ablate.record.reader import Run
from ablate.record.recorder import Recorder
from ablate.record.sketch import decode
from ablate.record.store import Store
from tests.record.conftest import make_grid, make_spec, run_trial

ROUNDS, TRIALS = 5, 10
GRID = make_grid(blocks=tuple(range(TRIALS)))
SPECS = [make_spec(block=block) for block in range(TRIALS)]


def loss_at(k: int) -> float:
    return 1 / (k + 3)


def record_until_killed(store: Store, block: int, attempt: int, said: int) -> None:
    recorder = Recorder(store.paths, SPECS[block], attempt)
    k = 0
    while True:
        recorder.sketch(k, 300, np.full(256, loss_at(k)))
        recorder.record(k, loss_at(k), 0.01, {"m": 1.0 * k})
        os.write(said, b"x")
        k += 1


def kill_after(delay_s: float, store: Store, block: int, attempt: int) -> int:
    """Record in a child that says over a pipe when ``record`` returned; return how often it did before its death."""
    heard, said = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            record_until_killed(store, block, attempt, said)
        finally:
            os._exit(1)
    os.close(said)
    time.sleep(delay_s)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    count = 0
    while data := os.read(heard, 1 << 16):
        count += len(data)
    os.close(heard)
    return count


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_every_acknowledged_row_survives_kill_9(memory):
    root = memory / "demo"
    chance = random.Random(20)
    acknowledged: dict[tuple[str, int], int] = {}
    for number in range(1, ROUNDS + 1):
        with Store.open(root, GRID, b"study: demo\n") as store:
            for spec in SPECS:
                count = kill_after(chance.random() * 0.02, store, spec.block, number)
                acknowledged[spec.trial_id, number] = count
                sketched = read_lines(store.paths.sketch_lines(spec.trial_id, number))
                assert count <= len(sketched) <= count + 1
                assert all((decode(one["values"]) == loss_at(one["batch_index"])).all() for one in sketched)
    with Store.open(root, GRID, b"study: demo\n") as store:
        assert len(store.recovered) <= TRIALS  # less one for each that was killed before it began
        for spec in SPECS:
            code, infrastructure = store.failures(spec.trial_id)
            begun = sum(acknowledged[spec.trial_id, number] > 0 for number in range(1, ROUNDS + 1))
            assert code == 0
            assert begun <= infrastructure <= ROUNDS
            store.absorb(spec.trial_id, run_trial(store, spec, loss=loss_at))

    run = Run(root)
    rows = run.attempts()
    keys = list(zip(rows["trial_id"].to_pylist(), rows["attempt"].to_pylist(), strict=True))
    losses: dict[tuple[str, int], list[float]] = {}
    for key, loss in zip(keys, rows["loss"].to_pylist(), strict=True):
        losses.setdefault(key, []).append(loss)
    assert losses.keys() <= acknowledged.keys()
    for key, count in acknowledged.items():
        mine = losses.get(key, [])
        assert count <= len(mine) <= count + 1  # the last may have been written but not yet said
        assert np.array_equal(mine, [loss_at(k) for k in range(len(mine))])
    assert sum(acknowledged.values()) > 1000
    assert run.batches()["batch_index"].to_pylist() == [0, 1, 2, 3] * TRIALS
    assert check(run) == []
