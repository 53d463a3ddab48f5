"""Trials with several workers, through the real command line on this machine."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path

import pytest

from ablate.record.journal import rows_written
from ablate.record.paths import StorePaths
from ablate.record.reader import Run
from tests.conftest import RAY_GONE_S, Workplace, wait_for, whole

pytestmark = pytest.mark.slow

TRAINABLES = Path(__file__).parents[1] / "trial" / "worker_trainables.py"
ARMS = "arms:\n  one: {}\n  two: {workers: 2}\n"


def write(place: Workplace, arms: str = ARMS, name: str = "Shared", **keys) -> None:
    shutil.copy(TRAINABLES, place.folder)
    place.grid(arms, **{"trainable": f"worker_trainables:{name}", "blocks": 1, **keys})


def rows(place: Workplace, runs: str = "runs") -> dict[str, dict]:
    found = Run(place.folder / runs / "doubles").trials().to_pylist()
    return {row["arm"]: row for row in found}


def test_the_same_trial_by_ray_and_without_and_by_itself(place):
    write(place)
    for words in (("--local",), ("--runs", "by_ray")):
        done = place.ablate("launch", "grid.yaml", *words)
        assert done.code == 0, done.text
    assert whole(place.root()) == 2
    local, by_ray = rows(place), rows(place, "by_ray")
    for arm in ("one", "two"):
        hashes = ("initial_hash", "data_hash", "order_hash", "draw_hash", "workers", "trial_id")
        assert [local[arm][name] for name in hashes] == [by_ray[arm][name] for name in hashes]
    assert [local[arm]["workers"] for arm in ("one", "two")] == [1, 2]
    assert local["one"]["order_hash"] == local["two"]["order_hash"]
    alone = place.ablate("trial", "grid.yaml", local["two"]["trial_id"])
    assert alone.code == 0, alone.text
    losses = [
        Run(root).batches(["arm", "loss"]).to_pylist()
        for root in (place.root(), place.folder / "by_ray" / "doubles", alone_root(place, local["two"]["trial_id"]))
    ]
    of_two = [[row["loss"] for row in found if row["arm"] == "two"] for found in losses]
    assert of_two[0] == of_two[1] == of_two[2]
    assert place.left_running() == {}


def alone_root(place: Workplace, trial_id: str) -> Path:
    return place.root(f"doubles.{trial_id}")


def test_a_trainable_that_does_not_say_its_loss_is_a_mean_is_refused_before_anything_runs(place):
    write(place, name="Undeclared")
    done = place.ablate("launch", "grid.yaml", "--local")
    assert done.code == 2, done.text
    assert "workers: asked for several, but Undeclared does not say mean_over_rows" in done.words
    assert "Set Undeclared.mean_over_rows = True if row i of every tensor" in done.words


def test_a_worker_that_is_killed_is_tried_again_and_one_that_raises_is_not(place):
    once = json.dumps(str(place.folder / "killed"))
    arms = f"""\
    arms:
      killed: {{workers: 2, settings: {{fault: kill, once: {once}}}}}
      raises: {{workers: 2, settings: {{fault: raise}}}}
    """
    write(place, arms)
    done = place.ablate("launch", "grid.yaml", "--local")
    found = rows(place)
    assert (found["killed"]["status"], found["killed"]["attempt"]) == ("done", 2)
    assert found["killed"]["failures_infrastructure"] == 1
    assert (found["raises"]["status"], found["raises"]["failure_kind"]) == ("failed", "code")
    assert "attempt 1, worker 1 of 2, batch 2:" in found["raises"]["error"]
    assert ", worker 1 of 2: its process died by signal 9: tried again as attempt 2" in done.words
    assert place.left_running() == {}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_launch_that_is_interrupted_leaves_no_worker(place, number):
    write(place, "arms:\n  two: {workers: 2}\n", settings="{step_s: 0.05}", batches=100_000)
    process = place.start("launch", "grid.yaml", "--local")
    paths = StorePaths(place.root())

    def training():
        keys = paths.journal_attempts() if paths.journal.is_dir() else ()
        return any((rows_written(paths.rows(*key)) or 0) > 2 for key in keys)

    wait_for(training, 120)
    os.kill(process.pid, number)
    process.communicate(timeout=60)
    assert place.left_running(RAY_GONE_S) == {}
