"""Opening a store: one writer, a grid that fits, a place where a store can be, and nothing damaged."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ablate.errors import BadInput, StoreError
from ablate.record.check import check
from ablate.record.reader import Run
from ablate.record.recorder import Recorder
from ablate.record.store import Store
from tests.record.conftest import make_grid, make_spec, run_trial

GIVEN = b"study: demo  # as given\n"


def test_two_writers(root):
    with (
        Store.open(root, make_grid(), GIVEN),
        pytest.raises(StoreError, match=f"the store is being written by process {os.getpid()} on"),
    ):
        Store.open(root, make_grid(), GIVEN)
    Store.open(root, make_grid(), GIVEN).close()


def test_a_store_may_grow(root):
    first, then = make_grid(), make_grid(factors={"lr": (0.1, 0.2, 0.3), "clip": (True, False)}, blocks=(0, 1, 2))
    with Store.open(root, first, GIVEN) as opened:
        opened.absorb(make_spec().trial_id, run_trial(opened, make_spec()))
    with Store.open(root, then, b"longer") as opened:
        assert opened.done() == {make_spec().trial_id}
        spec = make_spec(block=2, lr=0.3)
        opened.absorb(spec.trial_id, run_trial(opened, spec))
    run = Run(root)
    assert run.grid == then
    assert len(run.spec.history) == 1
    assert run.paths.grid_yaml.read_bytes() == b"longer"
    assert run.batches().num_rows == 8
    assert check(run) == []


def test_a_store_without_a_trial_may_be_taken_over_by_another_grid(root):
    Store.open(root, make_grid(), GIVEN).close()
    with Store.open(root, make_grid(batches=5), b"mended") as opened:
        spec = make_spec(batches=5)
        opened.absorb(spec.trial_id, run_trial(opened, spec))
    run = Run(root)
    assert run.grid.batches == 5
    assert run.spec.history == ()
    assert run.paths.grid_yaml.read_bytes() == b"mended"
    assert check(run) == []


def test_a_store_with_one_broken_attempt_may_not_be_taken_over(root):
    with Store.open(root, make_grid(), GIVEN) as opened:
        Recorder(opened.paths, make_spec(), 1).record(0, 1.0, 0.1, {})
    with pytest.raises(BadInput, match="batches: 4 -> 5"):
        Store.open(root, make_grid(batches=5), b"other")


def test_another_grid_is_refused_with_the_difference(root):
    with Store.open(root, make_grid(), GIVEN) as opened:
        opened.absorb(make_spec().trial_id, run_trial(opened, make_spec()))
    with pytest.raises(BadInput, match="this store belongs to a grid that differs:\n      batches: 4 -> 5\n") as caught:
        Store.open(root, make_grid(batches=5), b"other")
    assert "rename the study, or pass --runs FOLDER" in str(caught.value)
    assert Run(root).paths.grid_yaml.read_bytes() == GIVEN
    Store.open(root, make_grid(), GIVEN).close()  # the lock was given back


def test_a_store_error_inside_the_block_gives_the_lock_back(root):
    with pytest.raises(StoreError), Store.open(root, make_grid(), GIVEN):
        raise StoreError
    Store.open(root, make_grid(), GIVEN).close()


# --- places where no store can be


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("x")
    for root in (tmp_path / "file", tmp_path / "file" / "runs" / "s"):
        with pytest.raises(BadInput, match=r"file: is a file, not a folder for a store\n    choose another folder"):
            Store.open(root, make_grid(), GIVEN)


def test_runs_is_made_but_nothing_above_it(tmp_path):
    Store.open(tmp_path / "runs" / "s", make_grid(), GIVEN).close()
    with pytest.raises(BadInput, match=r"gone/runs: is missing\n    make it \(`mkdir -p '.*gone/runs'`\), or choose"):
        Store.open(tmp_path / "gone" / "runs" / "s", make_grid(), GIVEN)


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(BadInput, match=r"holds other files \(thesis\.tex\) and is no store"):
        Store.open(tmp_path, make_grid(), GIVEN)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_folder_without_write_permission(tmp_path, monkeypatch):
    def denied(self: Path, *_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "mkdir", denied)
    with pytest.raises(StoreError, match=r"cannot be written \(Permission denied\)\n    choose a folder that you may"):
        Store.open(tmp_path / "runs" / "s", make_grid(), GIVEN)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", r"spec\.json: is damaged"),
        (b"{}", r"is damaged \('schema_version'\)\n    restore it from a copy"),
        (b"[]", "is damaged"),
    ],
)
def test_a_damaged_spec(root, content, message):
    Store.open(root, make_grid(), GIVEN).close()
    (root / "spec.json").write_bytes(content)
    for attempt in (lambda: Store.open(root, make_grid(), GIVEN), lambda: Run(root)):
        with pytest.raises(StoreError, match=message):
            attempt()


def test_a_spec_of_a_newer_schema_or_changed_by_hand(root):
    Store.open(root, make_grid(), GIVEN).close()
    path = root / "spec.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "schema_version": 99}))
    with pytest.raises(
        StoreError, match=r"store schema 99, newer than this ablate knows\n.*up to 1\n    upgrade ablate"
    ):
        Store.open(root, make_grid(), GIVEN)
    content["grid"]["batches"] = 7
    path.write_text(json.dumps(content))
    with pytest.raises(StoreError, match="was changed by hand: its content has hash"):
        Store.open(root, make_grid(), GIVEN)


def test_a_damaged_table_of_trials_is_named(root):
    Store.open(root, make_grid(), GIVEN).close()
    (root / "trials" / "trials.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(StoreError, match=r"trials\.parquet: cannot be read as Parquet .*\n    restore it from a copy"):
        Store.open(root, make_grid(), GIVEN)
