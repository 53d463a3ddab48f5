"""What a probe cannot look at is said in words, with trial, snapshot and player, and the rest is looked at."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from probed_trials import QUADRATIC, content, probed, row, trained

from ablate.record.paths import StorePaths
from ablate.trial.notice import NOTICE


def test_other_source_than_the_trials_is_refused(tmp_path: Path) -> None:
    task = trained(tmp_path, QUADRATIC)
    end = probed(task, code="0123456789abcdef")
    assert (end.status, end.kind) == ("failed", "code")
    assert (
        f"probe of trial {task.spec.trial_id} (arm plain, block 0):\nbefore the first snapshot: {QUADRATIC}"
        in end.error
    )
    assert "the trial ran from other source: its hash was 0123456789abcdef, now it is " in end.error
    assert "Check out the code that the trial ran from" in end.error
    paths = StorePaths(tmp_path)
    snapshots = [paths.snapshot(task.spec.trial_id, at) for at in (0, 4)]
    for path in snapshots:
        torch.save({**torch.load(path), "code": "0123456789abcdef"}, path)
    assert probed(task, code="0123456789abcdef", mixed=True).status == "done"  # unless that is asked for


def test_weights_kept_by_other_source_are_refused(tmp_path: Path) -> None:
    task = trained(tmp_path, QUADRATIC)
    paths = StorePaths(tmp_path)
    columns = json.loads(paths.trial_json(task.spec.trial_id, 1).read_text())
    snapshot = paths.snapshot(task.spec.trial_id, 0)
    torch.save({**torch.load(snapshot), "code": "older"}, snapshot)
    end = probed(task, code=columns["source_hash"])
    assert "snapshot after 0 batches: " in end.error
    assert "its hash was older" in end.error
    assert "They are of an attempt that was given up: delete them" in end.error
    assert probed(task, code=columns["source_hash"], mixed=True).error == end.error  # not the trial's, whoever looks
    assert list(content(task)) == [f"{task.spec.trial_id}-4.probe.jsonl"]  # the other one is looked at all the same


def test_a_damaged_snapshot_is_named_and_the_next_is_looked_at(tmp_path: Path) -> None:
    task = trained(tmp_path, QUADRATIC)
    path = StorePaths(tmp_path).snapshot(task.spec.trial_id, 0)
    path.write_bytes(path.read_bytes()[:100])
    end = probed(task)
    assert (end.status, end.kind) == ("failed", "code")
    assert f"snapshot after 0 batches: kept weights: {path}: cannot be read: " in end.error
    assert "Delete it: its probe is then left out" in end.error
    assert list(content(task)) == [f"{task.spec.trial_id}-4.probe.jsonl"]


def test_weights_of_another_model_are_named(tmp_path: Path) -> None:
    task = trained(tmp_path, QUADRATIC)
    path = StorePaths(tmp_path).snapshot(task.spec.trial_id, 4)
    stored = torch.load(path)
    torch.save({**stored, "model": {"weight": torch.zeros(1, 5)}}, path)
    end = probed(task)
    assert "snapshot after 4 batches: the weights: do not fit the model that build() makes" in end.error


@pytest.mark.parametrize(
    ("fail", "words"),
    [
        ("nan", "the loss on the probe set is nan"),
        ("once", "second derivative"),
        ("raise", "ValueError: the user's own mistake"),
    ],
)
def test_a_hessian_that_cannot_be_had_is_said_with_trial_snapshot_and_player(
    tmp_path: Path, fail: str, words: str
) -> None:
    task = trained(tmp_path, QUADRATIC, settings={"fail": fail})
    end = probed(task)
    assert (end.status, end.kind) == ("failed", "code")
    assert f"probe of trial {task.spec.trial_id} (arm plain, block 0):" in end.error
    for batches in (0, 4):
        assert f"snapshot after {batches} batches, player all: " in end.error
    assert words in end.error
    assert content(task) == {}


def test_an_optimiser_without_a_parameter_of_the_model_is_named(tmp_path: Path) -> None:
    task = trained(tmp_path, "probed_trainables:Frozen")
    end = probed(task)
    assert "the optimiser of player 'other' steps no parameter of the model that requires a gradient" in end.error


def test_too_few_batches_for_the_probe_set(tmp_path: Path) -> None:
    task = trained(tmp_path, QUADRATIC, settings={"ends": 4}, plan={"batch": 5})
    assert "before the first snapshot: probe set: batches() ended after 4 of 5" in probed(task).error


def test_several_batches_make_the_probe_set(tmp_path: Path) -> None:
    task = trained(tmp_path, QUADRATIC, plan={"batch": 3})
    assert probed(task).status == "done"
    assert row(task, 4, "loss")["samples"] == 6


def test_a_function_has_no_loss_to_look_at(tmp_path: Path) -> None:
    task = trained(tmp_path, "small_trainables:function_line")
    end = probed(task)
    assert "small_trainables:function_line is a function, whose loss nobody else can compute" in end.error


def test_a_full_disk_is_the_stores_failure(tmp_path: Path) -> None:
    task = trained(tmp_path, QUADRATIC)
    paths = StorePaths(tmp_path)
    aside = paths.probe_lines(task.spec.trial_id, 0)
    aside.with_name(aside.name + ".tmp").mkdir()
    end = probed(task)
    assert (end.status, end.kind) == ("failed", "store")
    assert f"{aside}: cannot be used" in end.error


def test_told_to_leave_it_ends_between_snapshots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = trained(tmp_path, QUADRATIC)
    monkeypatch.setattr(NOTICE, "given", True)
    end = probed(task)
    assert (end.status, end.kind) == ("failed", "infrastructure")
    assert "snapshot after 0 batches: told to leave (SIGTERM)" in end.error


def test_out_of_memory_is_a_kind_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = trained(tmp_path, QUADRATIC)

    def exhausted(*args: object) -> None:
        raise MemoryError

    monkeypatch.setattr("ablate.trial.probe_run.look", exhausted)
    assert probed(task).kind == "memory"
