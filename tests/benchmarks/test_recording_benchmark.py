"""The recording benchmark measures what a trial does: its rows are in the store, and each way is told every batch."""

from __future__ import annotations

import math
from contextlib import suppress
from pathlib import Path

import pytest
import torch

from ablate.record.reader import Run
from ablate.trial.session import Session
from benchmarks import recording, recording_loop
from benchmarks.recording_loop import TURN, Cost, Reported, paired


@pytest.fixture(autouse=True)
def one_thread():
    yield
    recording_loop.FOUND.clear()


def test_what_is_measured_is_what_a_trial_records(tmp_path: Path) -> None:
    size = recording.run_all(tmp_path, "benchmarks.recording_loop:steps", 60, width=2)
    run = Run(tmp_path / "store")
    rows = run.batches().to_pylist()
    assert [row["batch_index"] for row in rows] == list(range(60))
    assert len({row["loss"] for row in rows}) > 50  # it trains
    assert all(0 <= row["metric.accuracy"] <= 1 for row in rows)
    assert [row["batch_index"] for row in rows if row["content_hash"] is not None] == [0, 50]  # the default plan
    assert run.audits().num_rows == 0  # neither the guard nor the audit ran
    assert size >= sum(file.stat().st_size for file in (tmp_path / "store" / "batches").iterdir())
    (cost,) = recording_loop.FOUND
    assert all(map(math.isfinite, vars(cost).values()))


def test_a_failing_study_is_no_measurement(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="no_such"):
        recording.run_all(tmp_path, "benchmarks.recording_loop:no_such", 3)


def test_losses_that_are_stored_look_like_losses(tmp_path: Path) -> None:
    recording.run_all(tmp_path, "benchmarks.recording_loop:falling", 40, blocks=2)
    losses = torch.tensor(Run(tmp_path / "store").batches().column("loss").to_pylist()).reshape(2, 40)
    assert (losses[:, :10].mean(dim=1) > 2 * losses[:, -10:].mean(dim=1)).all()
    assert not torch.equal(losses[0], losses[1])
    assert torch.equal(losses, losses.float().to(losses.dtype))


def test_the_guard_is_back_after_it(tmp_path: Path) -> None:
    before = Session.watched, Session.drawing
    with suppress(ZeroDivisionError), recording.unwatched():
        assert Session.watched is not before[0]
        raise ZeroDivisionError
    assert (Session.watched, Session.drawing) == before


def test_each_way_is_told_every_recorded_batch_and_no_other() -> None:
    told: list[tuple[int, dict[str, float]]] = []
    closed: list[bool] = []
    pairs = 2 * TURN + 3
    report = Reported(lambda number, metrics: told.append((number, metrics)))
    cost = paired(3, report, pairs, lambda: closed.append(True))
    assert [number for number, _ in told] == list(range(pairs))
    assert all(set(metrics) == {"loss", "accuracy"} for _, metrics in told)
    assert closed == [True]
    assert cost.step_s > 0


def test_tensorboards_writer_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = []

    class Kept:
        def __enter__(self) -> str:
            folders.append(tmp_path)
            return str(tmp_path)

        def __exit__(self, *_: object) -> None:
            return

    monkeypatch.setattr(recording, "TemporaryDirectory", Kept)
    recording.tensorboard(0, 4)
    assert folders
    assert sum(file.stat().st_size for file in tmp_path.glob("events*")) > 4 * 2 * 20


def rows_of(monkeypatch: pytest.MonkeyPatch, cpu_us: float, share: float, step_s: float = 1e-3):
    cost = Cost(share, cpu_us, step_s)
    for way in ("ours", "tensorboard", "wandb_offline"):
        monkeypatch.setattr(recording, way, lambda width, pairs: cost)
    one = {"share": 1.0, "cpu_us": 3000.0, "step_s": 1e-3, "driver_us": 1000.0, "bytes": 950.0}
    monkeypatch.setattr(recording, "tune_reports", lambda *_: [one])
    return recording.measure(1, 2, 2, 3, (1, 2000))


def test_rows_say_what_was_met_and_count_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_of(monkeypatch, 4.0, 0.01)
    assert [row.met for row in rows if row.target] == [True, True, True]
    assert {row.peer_name for row in rows} == {"", "TensorBoard", "W&B offline", "tune.report", "Tune's files"}
    (tune,) = [row for row in rows if row.peer_name == "tune.report" and row.unit == "us"]
    assert tune.ratio == 1000.0
    assert rows[-1].peer == (950.0,)
    assert 0 < rows[-1].ours[0] < 20
    assert [row.met for row in rows_of(monkeypatch, 6.0, 0.03) if row.target] == [False, False, True]


def test_a_step_that_came_out_longer_than_asked_hides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    share, *_ = rows_of(monkeypatch, 4.0, 0.01, step_s=4e-3)
    assert share.met is False
    assert "a bare step took 4.00 ms; judged is 4.00%, of 1 ms where it took longer" in share.note
    share, *_ = rows_of(monkeypatch, 4.0, 0.03, step_s=5e-4)
    assert share.met is False


def test_a_peer_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording.importlib.util, "find_spec", lambda name: None)
    notes = {row.peer_name: row.note for row in rows_of(monkeypatch, 4.0, 0.01)}
    assert notes["W&B offline"] == "wandb is not installed"


@pytest.mark.slow
def test_a_plain_tune_reports_every_batch() -> None:
    (found,) = recording.tune_reports(0, 10, 1)
    assert found["bytes"] > 200
    assert found["driver_us"] > 0
    assert found["cpu_us"] > 0
