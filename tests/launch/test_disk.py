"""A store that cannot be written: read-only, or on a disk that fills up while trials run."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from ablate.record.journal import rows_written
from ablate.record.paths import StorePaths
from tests.conftest import wait_for, whole

TWO = "arms:\n  one: {}\n  two: {settings: {at: 4}}\n"


@pytest.fixture
def mount(place):
    """Mount tiny file systems; they are gone after the test."""
    mounted = []

    def mount(folder: Path, options: str) -> Path:
        folder.mkdir()
        if os.getuid() != 0:
            pytest.skip("only root can mount a tmpfs")
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"cannot mount a tmpfs: {done.stderr.strip()}")
        mounted.append(folder)
        return folder

    yield mount
    for folder in mounted:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_read_only_folder(place, mount):
    place.grid(TWO)
    disk = mount(place.folder / "read only", "size=512k,ro")
    done = place.ablate("launch", "grid.yaml", "--local", "--runs", disk / "runs")
    assert done.code == 6, done.text
    assert "cannot be written (Read-only file system)" in done.words
    assert "choose a folder that you may write" in done.words
    assert "Traceback" not in done.text


def test_a_disk_that_fills_up(place, mount):
    place.grid(TWO, batches=100, blocks=1, settings="{step_s: 0.1}")
    disk = mount(place.folder / "tiny", "size=400k")
    paths = StorePaths(disk / "runs" / "doubles")
    process = place.start("launch", "grid.yaml", "--local", "--runs", disk / "runs")

    def rows():
        return {key: rows_written(paths.rows(*key)) or 0 for key in paths.journal_attempts()}

    wait_for(lambda: process.poll() is not None or min([*rows().values(), 0][: len(rows())] or [0]) >= 3)
    with (disk / "ballast").open("wb", buffering=0) as ballast:
        for size in (4096, 1):
            try:
                while True:
                    ballast.write(bytes(size))
            except OSError:
                continue
    done = place.finish(process)
    before = rows()
    assert done.code == 6, done.text
    assert "store is full" in done.words
    assert "free some space or move the store, then run the same command again: nothing recorded is lost" in done.words
    assert "/ablate/" not in done.text
    assert before
    assert max(before.values()) >= 3

    (disk / "ballast").unlink()
    again = place.ablate("launch", "grid.yaml", "--local", "--runs", disk / "runs", env={"DOUBLES_WELL": "1"})
    assert again.code == 0, again.text
    assert whole(paths.root, batches=100) == 2
    from ablate.record.reader import Run

    kept = Run(paths.root).attempts(["trial_id", "attempt", "batch_index"]).to_pylist()
    for key, count in before.items():
        found = [row["batch_index"] for row in kept if (row["trial_id"], row["attempt"]) == key]
        assert found[:count] == list(range(count))
