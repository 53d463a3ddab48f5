"""Launches that are broken off, by any means: the exit code says how, no acknowledged row is lost, nothing runs on."""

from __future__ import annotations

import os
import signal
import time

import psutil
import pytest

from ablate.record.journal import read_identity, rows_written
from ablate.record.paths import StorePaths
from ablate.record.reader import Run
from tests.conftest import RAY_GONE_S, wait_for, whole

SLOW = "arms:\n  slow: {}\n  other: {settings: {at: 4}}\n"
BATCHES = 40
GONE_S = 3.0
START_S = 200.0
"""With an embedded Ray a launch starts within 10 s on an idle machine; tests run beside others."""


def under_way(place, *how):
    """Start a launch of slow trials; return it when rows of two trials are acknowledged, with the number of rows."""
    place.grid(SLOW, batches=BATCHES, settings="{step_s: 0.1}", blocks=1)
    process = place.start("launch", "grid.yaml", *how)
    wait_for(
        lambda: process.poll() is not None or len([n for n in acknowledged(place).values() if n >= 3]) == 2, START_S
    )
    assert process.poll() is None, process.communicate()
    return process


def acknowledged(place):
    paths = StorePaths(place.root())
    return {key: rows_written(paths.rows(*key)) or 0 for key in paths.journal_attempts()}


def nothing_runs(place, within_s=GONE_S):
    began = time.monotonic()
    left = place.left_running(within_s)
    assert left == {}, f"still running {time.monotonic() - began:.1f} s later: {left}"


def complete(place, before, *how):
    """Launch again, without the sleeps, and check that all is there once."""
    done = place.ablate("launch", "grid.yaml", *how, env={"DOUBLES_WELL": "1"})
    assert done.code == 0, done.text
    assert whole(place.root(), batches=BATCHES) == 2
    kept = Run(place.root()).attempts(["trial_id", "attempt", "batch_index"]).to_pylist()
    for key, rows in before.items():
        found = [row["batch_index"] for row in kept if (row["trial_id"], row["attempt"]) == key]
        assert found[:rows] == list(range(rows)), f"{key} had acknowledged {rows} rows"


HOW = pytest.mark.parametrize("how", [["--local"], pytest.param([], marks=pytest.mark.slow)], ids=["local", "ray"])


@HOW
def test_ctrl_c_keeps_what_was_acknowledged(place, how):
    process = under_way(place, *how)
    second = place.ablate("launch", "grid.yaml", "--local")
    assert second.code == 6
    assert f"the store is being written by process {process.pid} on" in second.words
    assert "wait until that launch is over, or stop it" in second.words

    before = acknowledged(place)
    os.killpg(process.pid, signal.SIGINT)  # a terminal sends it to all in the foreground
    done = place.finish(process)
    assert done.code == 130
    assert done.err.endswith(
        "interrupted; finished trials are kept, the others begin again or at their checkpoint: launch again to resume\n"
    )
    assert "Traceback" not in done.text
    assert done.seconds < 15
    nothing_runs(place)
    complete(place, before, "--local")


@pytest.mark.slow
@HOW
def test_sigterm_keeps_what_was_acknowledged(place, how):
    process = under_way(place, *how)
    before = acknowledged(place)
    process.terminate()
    done = place.finish(process)
    assert done.code == 143
    assert done.err.endswith(
        "terminated; finished trials are kept, the others begin again or at their checkpoint: launch again to resume\n"
    )
    assert "Traceback" not in done.text
    nothing_runs(place)
    complete(place, before, "--local")


@HOW
def test_kill_9_of_the_launch_ends_everything_and_loses_nothing(place, how):
    process = under_way(place, *how)
    before = acknowledged(place)
    process.kill()
    process.communicate()
    nothing_runs(place, within_s=GONE_S if how else RAY_GONE_S)
    assert acknowledged(place).keys() == before.keys()
    complete(place, before, "--local")


@pytest.mark.slow
@pytest.mark.parametrize("how", [["--local"], []], ids=["local", "ray"])
def test_kill_9_of_a_trial_is_made_good_in_the_same_launch(place, how):
    process = under_way(place, *how)
    paths = StorePaths(place.root())
    key = sorted(acknowledged(place))[0]
    os.kill(read_identity(paths.rows(*key))["pid"], signal.SIGKILL)
    before = acknowledged(place)
    done = place.finish(process)
    assert done.code == 0, done.text
    assert told_again(done) == 1
    assert f"trial {key.trial_id} (arm " in done.words
    assert "attempt 1: its process died by signal 9: tried again as attempt 2" in done.words
    nothing_runs(place)
    attempts = {row["trial_id"]: row["attempt"] for row in Run(place.root()).trials().to_pylist()}
    assert sorted(attempts.values()) == [1, 2]
    assert attempts[key.trial_id] == 2
    complete(place, {key: before[key]}, "--local")
    assert {row["trial_id"]: row["attempt"] for row in Run(place.root()).trials().to_pylist()} == attempts


def told_again(done):
    return done.words.count(": tried again as attempt ")


@pytest.mark.slow
@HOW
def test_ctrl_c_twice_ends_at_once_and_still_loses_nothing(place, how):
    process = under_way(place, *how)
    before = acknowledged(place)
    os.killpg(process.pid, signal.SIGINT)
    time.sleep(0.2)
    os.killpg(process.pid, signal.SIGINT)
    done = place.finish(process)
    assert done.code == 130, done.text
    assert "Traceback" not in done.text
    assert done.seconds < 8
    nothing_runs(place, within_s=GONE_S if how else RAY_GONE_S)
    complete(place, before, "--local")


@pytest.mark.slow
def test_kill_9_of_a_tune_actor_is_made_good_in_the_same_launch(place):
    process = under_way(place)
    ours = set(place.running())  # Ray's workers write their title over their environment, but have parents of ours
    titled = [
        one for one in psutil.process_iter(["cmdline", "ppid"]) if (one.info["cmdline"] or [""])[0].startswith("ray::")
    ]
    actor = next(one for one in titled if one.info["ppid"] in ours and "Trainable" in one.info["cmdline"][0])
    before = acknowledged(place)
    actor.kill()
    done = place.finish(process)
    assert done.code == 0, done.text
    assert told_again(done) == 1
    assert "attempt 1: its Ray actor failed" in done.words
    nothing_runs(place)
    rows = Run(place.root()).trials().to_pylist()
    assert sorted((row["attempt"], row["failures_infrastructure"]) for row in rows) == [(1, 0), (2, 1)]
    lost = {row["trial_id"] for row in rows if row["attempt"] == 2}
    complete(place, {key: count for key, count in before.items() if key.trial_id in lost}, "--local")
