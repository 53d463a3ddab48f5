from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime

import numpy as np
import pytest

from ablate.errors import StoreError
from ablate.record.journal import read_journal
from ablate.record.paths import StorePaths
from ablate.record.recorder import Recorder
from tests.record.conftest import make_spec


@pytest.fixture
def paths(tmp_path):
    paths = StorePaths(tmp_path)
    paths.journal.mkdir()
    return paths


def test_a_row_is_on_disk_when_record_returns(paths):
    spec = make_spec()
    recorder = Recorder(paths, spec, 1)
    for k in range(3):
        recorder.record(k, 0.1 * k, 0.01, {})
        assert len(read_journal(paths.rows(spec.trial_id, 1)).rows) == k + 1 == recorder.batches
    recorder.close()


@pytest.mark.parametrize("wrong", [0, 2, -1])
def test_batches_come_in_order(paths, wrong):
    with Recorder(paths, make_spec(), 1) as recorder:
        recorder.record(0, 0.1, 0.01, {})
        with pytest.raises(ValueError, match=f"batch_index {wrong}, but the next one is 1"):
            recorder.record(wrong, 0.1, 0.01, {})


def test_finish_acknowledges(paths):
    spec = make_spec()
    recorder = Recorder(paths, spec, 3)
    recorder.record(0, float("nan"), 0.01, {}, order_hash=255)
    end = paths.trial_json(spec.trial_id, 3)
    assert not end.exists()
    recorder.finish("diverged", evaluate={"acc": np.float64(0.5)}, started_utc=datetime(2026, 1, 2, tzinfo=UTC))
    content = json.loads(end.read_text())
    assert content == {
        "trial_id": spec.trial_id,
        "attempt": 3,
        "arm": "fast",
        "block": 0,
        "factors": {"lr": 0.1, "clip": True},
        "status": "diverged",
        "batches": 1,
        "order_hash": "00000000000000ff",
        "started_utc": "2026-01-02T00:00:00+00:00",
        "evaluate": {"acc": 0.5},
    }
    assert not list(paths.journal.glob("*.tmp"))


def test_unknown_columns_are_refused_with_the_nearest(paths):
    with Recorder(paths, make_spec(), 1) as recorder:
        with pytest.raises(ValueError, match="unknown column 'verdikt'; did you mean 'verdict'"):
            recorder.audit(verdikt="clean")
        with pytest.raises(ValueError, match="unknown column 'wall'; did you mean 'wall_s'"):
            recorder.finish("done", wall=1.0)
        with pytest.raises(ValueError, match="status 'over' is none of done, diverged, failed"):
            recorder.finish("over")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="status 'failed' with failure_kind None"):
            recorder.finish("failed")
        with pytest.raises(ValueError, match="status 'done' with failure_kind 'code'"):
            recorder.finish("done", failure_kind="code")


def test_audits_are_lines(paths):
    spec = make_spec()
    with Recorder(paths, spec, 1) as recorder:
        recorder.audit(batch_index=0, check="saved_tensors", verdict="overwritten", shape=(2, 3), count=np.int64(4))
        recorder.audit(batch_index=1, verdict="clean")
        lines = paths.audit_lines(spec.trial_id, 1).read_text().splitlines()
    assert [json.loads(line)["batch_index"] for line in lines] == [0, 1]
    assert json.loads(lines[0])["shape"] == [2, 3]


def test_a_folder_that_is_gone_is_a_store_error(tmp_path):
    with pytest.raises(StoreError, match=r"\.rows: cannot be used \(No such file or directory\)"):
        Recorder(StorePaths(tmp_path / "gone"), make_spec(), 1)


def test_the_recorder_needs_no_pyarrow():
    """pyarrow's allocator starts a thread, and a trial is forked from a process that must have only one."""
    code = "import sys, ablate.record.recorder; assert not {'pyarrow', 'torch', 'ray'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
