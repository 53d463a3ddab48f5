"""Losses that stay on the device until a flush, with the CPU standing in for the device: the same rows, only later."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from spec_factory import make_task

from ablate.design.trial_spec import GuardPlan
from ablate.record.journal import read_journal
from ablate.record.paths import StorePaths
from ablate.trial import pending, runner
from ablate.trial.pending import Pending, Row, detached, until_not_finite
from ablate.trial.runner import run_trial
from ablate.trial.session import Session
from tests.trial.test_runner import audits, run

WRITTEN: list[list[int]] = []


class Deferring(Session):
    """A session that treats the CPU as a device whose losses are read late."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.deferred = True
        WRITTEN.clear()

    def flush(self) -> None:
        record = self.recorder.record
        batches: list[int] = []
        self.recorder.record = lambda index, *a, **k: (batches.append(index), record(index, *a, **k))  # type: ignore[assignment, method-assign, func-returns-value]
        try:
            super().flush()
        finally:
            self.recorder.record = record  # type: ignore[method-assign]
            if batches:
                WRITTEN.append(batches)


@pytest.fixture
def defer(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a switch: from then on, trials in this process read their losses late, never by the clock."""

    def switch(capacity: int = 64) -> None:
        monkeypatch.setattr(runner, "Session", Deferring)
        monkeypatch.setattr(pending, "AT_MOST_S", math.inf)
        monkeypatch.setattr(pending, "CAPACITY", capacity)

    return switch


def same_but_durations(one: np.ndarray[Any, Any], two: np.ndarray[Any, Any]) -> None:
    assert one.dtype == two.dtype
    for name in one.dtype.names or ():
        if name not in ("duration_s", "crc", "check", "checksum"):
            assert one[name].tobytes() == two[name].tobytes(), name


@pytest.mark.parametrize("trainable", ["Line", "Duel", "function_line"])
def test_rows_read_late_are_the_same_bit_for_bit(tmp_path: Path, trainable: str, defer: Any) -> None:
    plan = GuardPlan(first=1, every=4)
    _, now, columns_now = run(tmp_path / "now", trainable, batches=10, guard=plan)
    defer()
    end, late, columns_late = run(tmp_path / "late", trainable, batches=10, guard=plan)
    assert end.status == "done"
    same_but_durations(now, late)
    assert columns_now["draw_hash"] == columns_late["draw_hash"]
    assert columns_now["order_hash"] == columns_late["order_hash"]
    assert audits(tmp_path / "now") == audits(tmp_path / "late")
    # before and after each watched batch (0, 4, 8), and at the end
    assert WRITTEN == [[0], [1, 2, 3], [4], [5, 6, 7], [8], [9]]


def test_a_full_buffer_is_written(tmp_path: Path, defer: Any) -> None:
    defer(capacity=3)
    run(tmp_path, "Line", batches=8, guard=GuardPlan(first=0, every=0))
    assert WRITTEN == [[0, 1, 2], [3, 4, 5], [6, 7]]


def test_an_old_buffer_is_written(tmp_path: Path, defer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    defer()
    monkeypatch.setattr(pending, "AT_MOST_S", 0.0)
    run(tmp_path, "Line", batches=3, guard=GuardPlan(first=0, every=0))
    assert WRITTEN == [[0], [1], [2]]


@pytest.mark.parametrize(
    ("trainable", "plan"), [("Line", GuardPlan(first=0, every=0)), ("Line", GuardPlan(first=0, every=5))]
)
def test_a_trial_that_diverged_ends_at_the_same_batch(
    tmp_path: Path, trainable: str, plan: GuardPlan, defer: Any
) -> None:
    changes: dict[str, Any] = {"settings": {"bad_at": 3, "how": "nan"}, "batches": 20, "guard": plan}
    _, now, columns_now = run(tmp_path / "now", trainable, **changes)
    defer()
    end, late, columns_late = run(tmp_path / "late", trainable, **changes)
    assert end.status == "diverged"
    same_but_durations(now, late)
    for column in ("status", "batches", "order_hash", "draw_hash", "evaluate"):
        assert columns_now.get(column) == columns_late.get(column), column
    assert audits(tmp_path / "now") == audits(tmp_path / "late")  # none of a batch that is no batch of the trial


def test_a_further_players_loss_after_one_that_is_no_number_is_dropped() -> None:
    assert until_not_finite({"loss": 1.0, "loss_a": math.inf, "loss_b": 2.0}) == {"loss": 1.0, "loss_a": math.inf}


def test_a_failure_writes_what_was_pending_and_stays_a_failure(tmp_path: Path, defer: Any) -> None:
    defer()
    settings = {"bad_at": 3, "how": "raise"}
    end, rows, columns = run(tmp_path, "Line", settings=settings, batches=9, guard=GuardPlan(first=0, every=0))
    assert end.kind == columns["failure_kind"] == "code"
    assert "batch 3" in end.error
    assert rows["batch_index"].tolist() == [0, 1, 2]


def test_a_failure_after_a_loss_that_is_no_number_is_a_divergence(tmp_path: Path, defer: Any) -> None:
    defer()
    task = make_task(tmp_path, "small_trainables:function_nan_then_raise", guard=GuardPlan(first=0, every=0))
    assert run_trial(task).status == "diverged"
    rows = read_journal(StorePaths(tmp_path).rows(task.spec.trial_id, 1)).rows
    assert rows["batch_index"].tolist() == [0, 1]


def test_a_copy_is_kept_that_later_writes_do_not_change() -> None:
    loss = torch.tensor([1 / 3], requires_grad=True)
    kept = detached(loss)
    with torch.no_grad():
        loss.fill_(7.0)
    assert kept.shape == ()
    assert kept.dtype == torch.float64
    assert not kept.requires_grad
    assert kept.item() == np.float32(1 / 3)


def test_a_metric_with_several_elements_is_refused() -> None:
    with pytest.raises(RuntimeError, match=r"shape '\[\]' is invalid for input of size 2"):
        detached(torch.ones(2))


def test_rows_read_together_share_their_time() -> None:
    rows = Pending()
    for index, seconds in enumerate((1.0, 3.0)):
        loss = detached(torch.tensor(float(index)))
        rows.add(Row(index, {"loss": loss}, {"m": 2.0}, seconds, order=None, content=None, draws=""))
    read = list(rows.take())
    assert [row.losses["loss"] for row in read] == [0.0, 1.0]
    assert [row.metrics for row in read] == [{"m": 2.0}, {"m": 2.0}]
    assert read[0].duration_s == read[1].duration_s == pytest.approx(2.0, abs=0.1)
    assert list(rows.take()) == []


def test_a_row_read_at_once_keeps_its_time() -> None:
    rows = Pending()
    rows.add(Row(0, {"loss": 0.5}, {}, 0.125, order=1, content=2, draws=""))
    assert [(row.duration_s, row.losses) for row in rows.take()] == [(0.125, {"loss": 0.5})]
