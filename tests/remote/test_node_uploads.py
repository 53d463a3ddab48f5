"""A node whose own disk fails while it uploads: a moment is got over, a fault that lasts fails the attempt."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from ablate.errors import Problem, StoreError
from ablate.record.paths import StorePaths
from ablate.record.recorder import Recorder
from ablate.remote import patience
from ablate.remote.growing import Growing
from ablate.remote.refusal import Unreachable
from ablate.trial import uploads
from ablate.trial.task import TrialEnd, TrialTask
from ablate.trial.uploads import Uploading
from tests.conftest import wait_for
from tests.record.conftest import make_spec

SPEC = make_spec()


BROKEN = OSError(errno.EIO, "Input/output error")


class Disk:
    """Stands for what files are uploaded from, a node's disk, or to, the store: fails so often."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, failures: float, error: Exception = BROKEN) -> None:
        self.asked = 0
        plain = Growing.send

        def send(growing, objects):
            self.asked += 1
            if self.asked <= failures:
                raise error
            plain(growing, objects)

        monkeypatch.setattr(Growing, "send", send)


class Runs:
    """Records a trial, and ends it once the disk was asked so often."""

    def __init__(self, disk: Disk, asked: int) -> None:
        self._disk = disk
        self._asked = asked

    def run(self, task, started=None):
        with Recorder(StorePaths(Path(task.root)), task.spec, task.attempt) as recorder:
            for k in range(task.spec.batches):
                recorder.record(k, 1 / (k + 1), 0.01, {})
            wait_for(lambda: self._disk.asked >= self._asked)
            recorder.finish("done")
        return TrialEnd(trial_id=task.spec.trial_id, attempt=task.attempt, status="done")

    def close(self) -> None:
        pass


@pytest.fixture
def task(tmp_path, monkeypatch):
    monkeypatch.setenv("ABLATE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(uploads, "LOOK_S", 0.01)
    monkeypatch.setattr(uploads, "EVERY_S", 0.0)
    monkeypatch.setattr(uploads, "backoff", lambda tries: 0.01)
    (tmp_path / "shared").mkdir()
    return TrialTask(spec=SPEC, root="", attempt=1, cwd=".", search=(), remote=f"file://{tmp_path}/shared/demo")


def test_uploads_go_on_after_a_moment_in_which_the_disk_failed(task, tmp_path, monkeypatch):
    disk = Disk(monkeypatch, failures=3)
    end = Uploading(Runs(disk, asked=8)).run(task)
    assert (end.status, end.kind) == ("done", None)
    journal = tmp_path / "shared" / "demo" / "journal"
    assert {f"{SPEC.trial_id}-1.rows", f"{SPEC.trial_id}-1.trial.json"} <= {path.name for path in journal.iterdir()}


def test_a_disk_that_goes_on_failing_fails_the_attempt_as_its_surroundings_do(task, monkeypatch):
    disk = Disk(monkeypatch, failures=float("inf"))
    end = Uploading(Runs(disk, asked=2)).run(task)
    assert (end.status, end.kind) == ("failed", "infrastructure")  # so another attempt is made, maybe elsewhere
    where = f"trial {SPEC.trial_id} (arm fast, block 0), attempt 1"
    assert end.error == f"{where}: its files could not be uploaded: [Errno 5] Input/output error"


def test_a_store_that_this_node_alone_has_lost_is_no_end_of_the_launch(task, monkeypatch):
    monkeypatch.setattr(patience, "PATIENCE_S", 0.1)
    disk = Disk(monkeypatch, float("inf"), Unreachable(Problem("s3://bucket/demo", "does not answer")))
    end = Uploading(Runs(disk, asked=2)).run(task)
    assert (end.status, end.kind) == ("failed", "infrastructure")
    assert end.error.endswith(", attempt 1: its node lost the store: s3://bucket/demo: does not answer")


def test_a_store_that_refuses_is(task, monkeypatch):
    disk = Disk(monkeypatch, float("inf"), StoreError(Problem("s3://bucket/demo", "access is refused")))
    end = Uploading(Runs(disk, asked=2)).run(task)
    assert (end.status, end.kind) == ("failed", "store")
    assert end.error.endswith(", attempt 1: s3://bucket/demo: access is refused")
