"""A trial that goes on from a checkpoint is the trial that was never broken off, bit for bit."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from spec_factory import make_task

from ablate.design.trial_spec import CheckpointPlan, GuardPlan
from ablate.record.journal import read_journal
from ablate.record.paths import StorePaths, temporary
from ablate.trial import resume
from ablate.trial.notice import NOTICE, ToldToLeave
from ablate.trial.runner import run_trial

torch.set_num_threads(1)
PLAN: dict[str, Any] = {"batches": 10, "guard": GuardPlan(first=2, every=4), "checkpoint": CheckpointPlan(batches=3)}


def attempt(root: Path, trainable: str, number: int, die_at: int = 7, **changes: Any) -> dict[str, Any]:
    task = make_task(
        root, f"small_trainables:{trainable}", attempt=number, settings={"die_at": die_at}, **PLAN | changes
    )
    end = run_trial(task)
    paths = StorePaths(root)
    rows = paths.rows(task.spec.trial_id, number)
    return {
        "end": end,
        "paths": paths,
        "id": task.spec.trial_id,
        "rows": read_journal(rows).rows if rows.exists() else None,
        "columns": json.loads(paths.trial_json(task.spec.trial_id, number).read_text()),
        "audits": [json.loads(line) for line in paths.audit_lines(task.spec.trial_id, number).read_text().splitlines()],
    }


@pytest.mark.parametrize("trainable", ["Careful", "function_careful"])
def test_a_resumed_trial_equals_an_undisturbed_one(
    tmp_path: Path, trainable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = attempt(tmp_path / "a", trainable, 1)
    assert broken["end"].status == "failed"
    assert len(broken["rows"]) == 7
    for file in broken["paths"].journal.iterdir():
        file.unlink()  # as the store does once it has set the attempt aside
    monkeypatch.setenv("alive", "1")
    resumed = attempt(tmp_path / "a", trainable, 2)
    undisturbed = attempt(tmp_path / "b", trainable, 1)
    assert resumed["end"].status == undisturbed["end"].status == "done"
    assert resumed["columns"]["resumed_at"] == 6
    assert undisturbed["columns"]["resumed_at"] is None
    for column in ("loss", "batch_index", "flags", "order_hash", "content_hash"):
        assert (resumed["rows"][column] == undisturbed["rows"][column]).all(), column
    for column in ("initial_hash", "order_hash", "draw_hash"):
        assert resumed["columns"][column] == undisturbed["columns"][column], column
    assert resumed["audits"] == undisturbed["audits"]
    assert not resumed["paths"].checkpoint(resumed["id"]).parent.exists()  # complete: nothing to go on from


def test_checkpoints_change_no_loss(tmp_path: Path) -> None:
    saving = attempt(tmp_path / "a", "Careful", 1, die_at=-1)
    free = attempt(tmp_path / "b", "Careful", 1, die_at=-1, checkpoint=CheckpointPlan())
    assert saving["rows"]["loss"].tobytes() == free["rows"]["loss"].tobytes()


def test_a_checkpoint_of_other_code_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    attempt(tmp_path, "Careful", 1)
    monkeypatch.setattr("ablate.trial.runner.source_hash", lambda trainable: "other")
    monkeypatch.setenv("alive", "1")
    again = attempt(tmp_path, "Careful", 2)
    assert again["end"].status == "done"
    assert again["columns"]["resumed_at"] is None


def test_rows_that_are_missing_are_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    broken = attempt(tmp_path, "Careful", 1)
    rows = broken["paths"].checkpoint_rows(broken["id"], 1)
    rows.write_bytes(rows.read_bytes()[:300])
    end = attempt_without_end(tmp_path)
    assert end.kind == "store"
    assert "but the checkpoint was made after 6" in end.error
    assert f"delete {rows.parent}: the trial then begins again" in end.error


def test_a_plan_by_minutes_is_due_after_them() -> None:
    plan = CheckpointPlan(minutes=2.0)
    assert not plan.due(1000, 119)
    assert plan.due(1, 120)
    assert not CheckpointPlan().due(10**9, 10**9)
    assert CheckpointPlan(batches=3, minutes=2.0).due(3, 0)


def test_a_full_disk_keeps_the_last_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = attempt(tmp_path, "Careful", 1)
    before = broken["paths"].checkpoint(broken["id"]).read_bytes()

    aside, write = temporary(broken["paths"].checkpoint(broken["id"])), Path.write_bytes

    def no_space(path: Path, content: bytes) -> int:
        if path != aside:
            return write(path, content)
        write(path, b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", no_space)
    monkeypatch.setenv("alive", "1")
    end = attempt_without_end(tmp_path)
    assert end.kind == "store"
    assert "full" in end.error
    assert broken["paths"].checkpoint(broken["id"]).read_bytes() == before
    assert not aside.exists()


def attempt_without_end(root: Path) -> Any:
    return run_trial(make_task(root, "small_trainables:Careful", attempt=2, settings={"die_at": 7}, **PLAN))


@pytest.mark.parametrize(
    ("saved", "words"),
    [
        (0, "after batch 6; its loop calls no ctx.checkpoint, so it begins again"),
        (
            3,
            "after batch 6; its loop calls no ctx.checkpoint any more, so it goes on from the one after 3 batches",
        ),
    ],
)
def test_a_loop_that_offers_no_checkpoint_leaves_a_batch_later_and_says_where_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, saved: int, words: str
) -> None:
    flushed: list[int] = []
    task = make_task(tmp_path, "small_trainables:loop")
    session = SimpleNamespace(task=task, spec=task.spec, ranks=None, batch_index=7, flush=lambda: flushed.append(7))
    found = resume.Resume(session, "code", "machine")
    found._saved_batches = saved
    found.pass_by()
    monkeypatch.setattr(NOTICE, "given", True)
    found.pass_by()  # a batch in which it may still come by
    assert not flushed
    with pytest.raises(ToldToLeave) as told:
        found.pass_by()
    assert (str(told.value), flushed) == (words, [7])
