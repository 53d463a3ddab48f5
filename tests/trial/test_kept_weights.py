"""Snapshots: kept without a trace in the training, each with what the trial had at that moment, whatever broke off."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from spec_factory import make_task

from ablate.design.trial_spec import CheckpointPlan, CurvaturePlan, GuardPlan, Numerics, ProbePlan
from ablate.record.journal import read_journal
from ablate.record.paths import StorePaths, temporary
from ablate.trial.kept_weights import KeptWeights, KeptWeightsError, discard_after, load
from ablate.trial.runner import run_trial

torch.set_num_threads(1)
AT = (0, 3, 7, 10)


def plan(*at: int, **more: Any) -> ProbePlan:
    return ProbePlan(curvature=CurvaturePlan(at=at, **more))


def run(root: Path, trainable: str = "Careful", attempt: int = 1, **changes: Any) -> dict[str, Any]:
    changes = {"batches": 10, "guard": GuardPlan(first=3, every=4), "probes": plan(*AT), **changes}
    task = make_task(root, f"small_trainables:{trainable}", attempt=attempt, **changes)
    end = run_trial(task)
    paths, trial = StorePaths(root), task.spec.trial_id
    rows = paths.rows(trial, attempt)
    return {
        "end": end,
        "id": trial,
        "paths": paths,
        "rows": read_journal(rows).rows if rows.exists() else None,
        "columns": json.loads(paths.trial_json(trial, attempt).read_text()),
        "audits": audits.read_text() if (audits := paths.audit_lines(trial, attempt)).exists() else "",
    }


def kept(found: dict[str, Any], batches: int) -> KeptWeights:
    weights = load(found["paths"].snapshot(found["id"], batches))
    assert weights is not None
    return weights


def at(found: dict[str, Any]) -> list[int]:
    return [batches for batches in range(20) if found["paths"].snapshot(found["id"], batches).exists()]


def same(one: Any, two: Any) -> bool:
    """Whether nested values are equal, bit for bit."""
    if isinstance(one, torch.Tensor):
        return one.dtype == two.dtype and one.numpy().tobytes() == two.numpy().tobytes()
    if isinstance(one, dict):
        return list(one) == list(two) and all(same(one[key], two[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(two) and all(map(same, one, two))
    return bool(one == two)


@pytest.mark.parametrize("trainable", ["Line", "Careful", "Duel"])
def test_snapshots_change_no_bit_of_the_training(tmp_path: Path, trainable: str) -> None:
    """Careful has batch norm, dropout from the global generator, a carry and Adam: whatever is touched shows."""
    with_them, without = run(tmp_path / "a", trainable), run(tmp_path / "b", trainable, probes=ProbePlan())
    assert with_them["end"].status == without["end"].status == "done"
    assert (at(with_them), at(without)) == (list(AT), [])
    for column in ("loss", "batch_index", "flags", "order_hash", "content_hash"):
        assert with_them["rows"][column].tobytes() == without["rows"][column].tobytes(), column
    for column in ("initial_hash", "data_hash", "order_hash", "draw_hash"):
        assert with_them["columns"][column] == without["columns"][column], column
    assert with_them["audits"] == without["audits"]


def test_a_snapshot_is_what_the_trial_had_then(tmp_path: Path) -> None:
    """A longer trial passes through the weights at which a shorter one ends."""
    long, short = run(tmp_path / "a"), run(tmp_path / "b", batches=7)
    for batches in (0, 3, 7):
        assert same(vars(kept(long, batches)), vars(kept(short, batches)))
    later = kept(long, 7)
    assert set(later.model) == {
        *("0.weight", "0.bias", "1.weight", "1.bias", "3.weight", "3.bias"),
        *("1.running_mean", "1.running_var", "1.num_batches_tracked"),
    }
    assert later.model["1.num_batches_tracked"] == 7
    assert later.trainable == {"steps": 7}
    assert later.optimisers["all"]["state"][0]["step"] == 7
    assert later.optimisers["all"]["param_groups"][0]["lr"] == 0.05 / 8
    assert later.code == long["columns"]["source_hash"]


def test_before_is_the_parameters_one_batch_earlier(tmp_path: Path) -> None:
    found = run(tmp_path, probes=plan(0, 6, 7))
    earlier, later = kept(found, 6), kept(found, 7)
    assert kept(found, 0).before is None
    assert later.before is not None
    assert set(later.before) == {name for name in later.model if "running" not in name and "num_" not in name}
    assert all(same(later.before[name], earlier.model[name]) for name in later.before)
    assert not same(later.before["0.weight"], later.model["0.weight"])


def test_the_initial_weights_are_the_arms_own(tmp_path: Path) -> None:
    plain, moved = run(tmp_path / "a"), run(tmp_path / "b", numerics=Numerics(perturb="one-ulp"))
    apart = (kept(plain, 0).model["0.weight"] - kept(moved, 0).model["0.weight"]).abs()
    assert 0 < apart.max() < 1e-6


def test_the_arms_precision_is_kept(tmp_path: Path) -> None:
    found = run(tmp_path, numerics=Numerics(precision="float64"))
    assert kept(found, 3).model["0.weight"].dtype is torch.float64


def test_a_trial_that_diverges_has_those_from_before(tmp_path: Path) -> None:
    found = run(tmp_path, "Line", settings={"bad_at": 6, "how": "nan"})
    assert found["end"].status == "diverged"
    assert at(found) == [0, 3]


def test_a_resumed_trial_ends_with_every_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changes: dict[str, Any] = {"checkpoint": CheckpointPlan(batches=5), "settings": {"die_at": 8}}
    broken = run(tmp_path / "a", **changes)
    assert (broken["end"].status, at(broken)) == ("failed", [0, 3, 7])
    for file in broken["paths"].journal.iterdir():
        file.unlink()  # as the store does once it has set the attempt aside
    first = kept(broken, 3)
    broken["paths"].snapshot(broken["id"], 7).write_bytes(b"of a batch that is made anew")
    monkeypatch.setenv("alive", "1")
    resumed, undisturbed = run(tmp_path / "a", attempt=2, **changes), run(tmp_path / "b", **changes)
    assert resumed["columns"]["resumed_at"] == 5
    assert at(resumed) == list(AT)
    assert same(vars(kept(resumed, 3)), vars(first))
    for batches in AT:
        assert same(vars(kept(resumed, batches)), vars(kept(undisturbed, batches)))


def test_a_fresh_attempt_lets_go_of_what_an_earlier_one_kept(tmp_path: Path) -> None:
    """Else a trial that now ends earlier, by other code, would be looked at where it never was."""
    found = run(tmp_path, "Line")
    directions = found["paths"].directions(found["id"], 10)
    directions.write_bytes(b"")
    other = found["paths"].snapshot("t-other", 10)
    other.write_bytes(b"")
    discard_after(found["paths"], found["id"], 3)
    assert at(found) == [0, 3]
    assert not directions.exists()
    assert other.exists()
    assert at(run(tmp_path, "Line", attempt=2, batches=10)) == list(AT)


def test_a_disk_that_fails_is_the_stores_failure(tmp_path: Path) -> None:
    task = make_task(tmp_path, "small_trainables:Line", probes=plan(2))
    aside = temporary(StorePaths(tmp_path).snapshot(task.spec.trial_id, 2))
    aside.mkdir()  # so that it cannot be written
    end = run_trial(task)
    assert (end.status, end.kind) == ("failed", "store")
    assert f"{aside.with_suffix('')}: cannot be used (Is a directory)" in end.error


@pytest.mark.parametrize("content", [b"", b"PK torn", b"not a file of torch's at all"])
def test_damage_is_said_with_the_file_and_what_to_do(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "t1-5.pt"
    path.write_bytes(content)
    with pytest.raises(KeptWeightsError) as error:
        load(path)
    assert f"kept weights: {path}: cannot be read: " in str(error.value)
    assert "Delete it: its probe is then left out" in str(error.value)


def test_a_truncated_snapshot_is_damaged(tmp_path: Path) -> None:
    found = run(tmp_path, "Line")
    path = found["paths"].snapshot(found["id"], 3)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(KeptWeightsError, match="cannot be read"):
        load(path)


def test_none_is_none(tmp_path: Path) -> None:
    assert load(tmp_path / "t1-5.pt") is None
