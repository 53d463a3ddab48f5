from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from ablate.errors import StoreError
from ablate.record.lock import StoreLock, clear_store, holder, is_held
from ablate.record.paths import StorePaths

HOLD = """
import sys, time
from pathlib import Path
from ablate.record.lock import StoreLock
lock = StoreLock(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(60)
"""


def test_one_writer_and_free_again_at_its_death(tmp_path):
    path = tmp_path / "lock"
    child = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    try:
        assert child.stdout.readline() == "held\n"
        assert is_held(path)
        with pytest.raises(StoreError, match=f"is being written by process {child.pid} on .* since 20") as caught:
            StoreLock(path)
        assert caught.value.exit_code == 6
    finally:
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        child.stdout.close()
    assert not is_held(path)
    StoreLock(path).release()


def test_release_twice_and_content(tmp_path):
    path = tmp_path / "lock"
    lock = StoreLock(path)
    assert f"process {os.getpid()} on " in holder(path)
    lock.release()
    lock.release()
    assert not is_held(path)
    assert holder(path) == "another process"


def test_a_missing_lock_is_not_held(tmp_path):
    assert not is_held(tmp_path / "lock")


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_does_not_keep_the_lock(tmp_path):
    path = tmp_path / "lock"
    lock = StoreLock(path)
    child = os.fork()
    if child == 0:
        lock.release()  # not its own: must do nothing
        time.sleep(30)
        os._exit(0)
    try:
        lock.release()
        time.sleep(0.1)
        assert not is_held(path)
        StoreLock(path).release()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_store_that_is_being_written_is_not_deleted(tmp_path):
    paths = StorePaths(tmp_path / "store")
    paths.root.mkdir()
    paths.spec_json.write_text("{}")
    held = StoreLock(paths.lock)
    with pytest.raises(StoreError, match="the store is being written by process"):
        clear_store(paths)
    assert paths.spec_json.exists()
    held.release()
    clear_store(paths)
    assert not paths.root.exists()
    clear_store(paths)  # nothing there is nothing to do


def test_a_folder_that_is_no_store_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    clear_store(StorePaths(tmp_path))
    assert (tmp_path / "thesis.tex").exists()
