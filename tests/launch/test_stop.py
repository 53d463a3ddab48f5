"""`ablate stop`: ends a launch as Ctrl-C would, and nothing else."""

from __future__ import annotations

import json
import os
import socket

import pytest

from ablate.errors import BadInput, StoreError
from ablate.launch import stop as module
from ablate.launch.stop import stop
from ablate.record.lock import StoreLock
from ablate.record.reader import Run
from tests.launch.test_interruptions import acknowledged, nothing_runs, under_way


def test_a_launch_is_ended_in_order_and_what_is_kept_is_said(place):
    process = under_way(place, "--local")
    before = acknowledged(place)
    done = place.ablate("stop", place.root())
    launched = place.finish(process)
    assert done.code == 0
    assert f"ended: process {process.pid} on {socket.gethostname()} since" in done.out
    assert "0 of 2 trials are done; finished trials are kept" in done.out
    assert launched.code == 143
    assert "launch again to resume" in launched.err
    nothing_runs(place)
    kept = Run(place.root()).attempts(["trial_id", "attempt"]).to_pylist()
    for (trial_id, attempt), rows in before.items():
        assert kept.count({"trial_id": trial_id, "attempt": attempt}) >= rows
    assert "no launch writes this run" in place.ablate("stop", place.root()).out  # and that is no error


def test_a_run_that_is_not_there_is_bad_input(place):
    done = place.ablate("stop", "nowhere")
    assert done.code == 2
    assert "there is no run of this name" in done.err


@pytest.fixture
def lock(tmp_path):
    path = tmp_path / "lock"
    held = StoreLock(path)
    yield path
    held.release()


def held_by(path, **changes):
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_a_launch_on_another_machine_is_not_touched(lock):
    held_by(lock, host="elsewhere")
    with pytest.raises(BadInput, match=r"held by process \d+ on elsewhere.*\n.*Run the same command on elsewhere"):
        stop(lock)


def test_another_process_of_the_same_number_is_not_touched(lock):
    held_by(lock, pid=os.getppid())
    with pytest.raises(BadInput, match=r"but process \d+ here is another one\n.*container"):
        stop(lock)
    held_by(lock, pid=2**22 + 1)  # above the kernel's largest
    with pytest.raises(BadInput, match="is another one"):
        stop(lock)


def test_a_lock_that_says_nothing_is_left_alone(lock):
    lock.write_text("")
    with pytest.raises(StoreError, match="does not say by whom"):
        stop(lock)


def test_another_users_launch_and_one_that_does_not_end_are_said(lock, monkeypatch):
    def refuse(pid, number):
        raise PermissionError

    monkeypatch.setattr(module.os, "kill", refuse)
    with pytest.raises(StoreError, match="belongs to another user"):
        stop(lock)
    monkeypatch.setattr(module.os, "kill", lambda pid, number: None)
    with pytest.raises(StoreError, match=r"still writes after 0.2 s\n.*kill -9"):
        stop(lock, end_s=0.2)
