"""A full disk, on a tiny file system of its own: an error in plain words, nothing acknowledged is lost."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ablate.errors import StoreError
from ablate.record.check import check
from ablate.record.journal import read_journal
from ablate.record.reader import Run
from ablate.record.recorder import Recorder
from ablate.record.store import Store
from tests.record.conftest import make_grid, make_spec, run_trial

GIVEN = b"study: demo\n"


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "tiny disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(disk)]
    try:
        mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        pytest.skip(f"cannot mount a tmpfs: {error}")
    if mounted.returncode:
        pytest.skip(f"cannot mount a tmpfs: {mounted.stderr.strip()}")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def fill(disk: Path) -> Path:
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (4096, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue
    return ballast


def test_rows_until_full_then_on_when_there_is_room(tiny):
    spec = make_spec(batches=100_000)
    with Store.open(tiny / "runs" / "demo", make_grid(batches=100_000), GIVEN) as store:
        recorder = Recorder(store.paths, spec, 1)
        ballast = tiny / "ballast"
        ballast.write_bytes(bytes(100_000))
        error = None
        while error is None:
            rows = recorder.batches
            try:
                recorder.record(rows, 0.5 * rows, 0.01, {})
            except StoreError as full:
                error = full
        assert re.search(r"\.rows: store is full: 0\.0 MiB free there\n    free some space", str(error))
        assert error.exit_code == 6
        path = store.paths.rows(spec.trial_id, 1)
        assert len(read_journal(path).rows) == rows > 1000
        assert read_journal(path).dropped_bytes == 0
        ballast.unlink()
        recorder.record(rows, 0.25, 0.01, {})
        recorder.close()
        assert read_journal(path).rows["loss"].tolist() == [*(0.5 * k for k in range(rows)), 0.25]


def test_absorbing_on_a_full_disk_loses_nothing(tiny):
    root = tiny / "runs" / "demo"
    spec = make_spec()
    store = Store.open(root, make_grid(), GIVEN)
    run_trial(store, spec)
    fill(tiny)
    store.absorb(spec.trial_id, 1)
    with pytest.raises(StoreError, match="store is full"):
        store.flush()
    with pytest.raises(StoreError, match="store is full"):
        store.close()
    with pytest.raises(StoreError, match="store is full"):
        Store.open(root, make_grid(), GIVEN)
    (tiny / "ballast").unlink()
    with Store.open(root, make_grid(), GIVEN) as store:
        assert store.recovered == [f"trial {spec.trial_id}, attempt 1: done"]
    assert Run(root).batches().num_rows == 4
    assert check(Run(root)) == []


def test_a_full_disk_at_the_very_start(tiny):
    (tiny / "runs").mkdir()
    fill(tiny)
    with pytest.raises(StoreError, match="store is full"):
        Store.open(tiny / "runs" / "demo", make_grid(), GIVEN)


def test_a_read_only_disk(tiny):
    root = tiny / "runs" / "demo"
    Store.open(root, make_grid(), GIVEN).close()
    subprocess.run(["mount", "-o", "remount,ro", str(tiny)], check=True)
    assert Run(root).grid == make_grid()  # reading still works
    assert check(Run(root)) == []
    with pytest.raises(StoreError, match=r"cannot be written \(Read-only file system\)") as caught:
        Store.open(root, make_grid(), GIVEN)
    assert caught.value.exit_code == 6
    assert os.path.ismount(tiny)
