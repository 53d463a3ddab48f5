"""The file that an audit takes elsewhere, and the comparison of two sides."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from safetensors.torch import save_file as save_torch

from ablate.design.cross import trials
from ablate.design.grid import load_grid
from ablate.errors import BadInput
from ablate.launch.audit import audit_grid
from ablate.launch.audit_against import compare
from ablate.launch.audit_file import read_audit_file, values_of, weights_named_in, write_audit_file
from ablate.launch.audit_kept import check_same_study, in_the_study
from ablate.trial.task import TrialEnd

KEY = '["plain", {}]'
GRID = "study: s\nquestion: q\ntrainable: mine:Mine\nbatches: 3\nblocks: 1\narms: {plain: {}}\n"


@pytest.fixture
def written(tmp_path: Path) -> Path:
    (tmp_path / "grid.yaml").write_text(GRID)
    kept = {
        "batch.0.index": torch.arange(3),
        "batch.0.tensors.x": torch.tensor([[0.1], [0.2]]),
        "value.loss.p.arm": torch.tensor(0.1, dtype=torch.float64),
        "value.loss.p.float64": torch.tensor(0.1 + 1e-9, dtype=torch.float64),
        "value.loss.p.bound": torch.tensor(1e-7, dtype=torch.float64),
        "value.loss.p.exact": torch.tensor(1e-16, dtype=torch.float64),
    }
    save_torch(kept, tmp_path / "kept.safetensors", {"weights": "abc"})
    (tmp_path / "weights").write_bytes(b"any bytes")
    path = tmp_path / "out" / "file.audit"
    grid = load_grid(tmp_path / "grid.yaml")
    machine = {"torch": "2.13.0", "host": "a", "loss": 3}
    write_audit_file(
        path, grid, {KEY: {"a": 1}}, machine, {KEY: tmp_path / "kept.safetensors"}, {KEY: tmp_path / "weights"}
    )
    return path


def test_everything_comes_back(written, tmp_path):
    found = read_audit_file(written, tmp_path)
    assert found.machine == {
        **dict.fromkeys(("cpu_model", "capability", "gpu", "python", "numpy", "ablate")),
        **{"torch": "2.13.0", "host": "a"},
    }
    assert found.values[KEY].keys() == {"loss.p.arm", "loss.p.float64", "loss.p.bound", "loss.p.exact"}
    assert found.values[KEY]["loss.p.arm"] == 0.1
    assert found.inputs.weights[KEY].read_bytes() == b"any bytes"
    assert load_file(found.inputs.batches[KEY])["batch.0.index"].tolist() == [0, 1, 2]
    assert weights_named_in(tmp_path / "kept.safetensors") == "abc"
    assert values_of(tmp_path / "kept.safetensors").keys() == found.values[KEY].keys()


def test_one_changed_bit_is_seen(written, tmp_path):
    content = bytearray(written.read_bytes())
    content[-1] ^= 1
    written.write_bytes(content)
    with pytest.raises(BadInput, match="is damaged: its contents are not those it was written with"):
        read_audit_file(written, tmp_path)


def test_a_file_of_another_kind_or_format_is_refused(written, tmp_path):
    other = tmp_path / "other.safetensors"
    save_file({"a": np.zeros(2)}, other)
    with pytest.raises(BadInput, match="is no file that --save wrote"):
        read_audit_file(other, tmp_path)
    save_file({"a": np.zeros(2)}, other, {"about": json.dumps({"format": 99}), "sha256": ""})
    with pytest.raises(BadInput, match=r"has format 99\n.*allowed: 1"):
        read_audit_file(other, tmp_path)


class _Study:
    def __init__(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "grid.yaml").write_text(text)
        self.grid = load_grid(tmp_path / "grid.yaml")
        self.specs = trials(self.grid)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("mine:Mine", "mine:Other", "is of mine:Mine, the grid of mine:Other"),
        ("batches: 3", "batches: 2", "holds 3 batches, the grid audits 2"),
        ("plain: {}", "plane: {}", 'has no trial \\["plane", {}\\]'),
        ("arms: {plain: {}}", "settings: {a: 2}", "has no trial"),
        ("{plain: {}}", "{plain: {settings: {a: 2}}}", "had settings {'a': 1}, now {'a': 2}"),
    ],
)
def test_a_file_of_another_study_is_refused(written, tmp_path, old, new, words):
    file = read_audit_file(written, tmp_path)
    with pytest.raises(BadInput, match=words):
        check_same_study(_Study(tmp_path, GRID.replace(old, new)), file)


def test_a_failure_is_told_by_the_id_that_runs_it_alone(tmp_path):
    study = _Study(tmp_path, GRID.replace("batches: 3", "batches: 30").replace("blocks: 1", "blocks: [5, 2]"))
    small = _Study(tmp_path, GRID)
    small.specs = trials(audit_grid(study.grid))
    (spec,) = small.specs
    end = TrialEnd(trial_id=spec.trial_id, attempt=1, status="failed", kind="code", error="no")
    (told,) = in_the_study([end], small, study)
    assert told.trial_id == next(one.trial_id for one in study.specs if one.block == 2) != spec.trial_id


def side(
    loss: float = 1.0, gradient: float = 2.0, exact: float = 2.0, update: float = 0.5, bound: float = 1e-6
) -> dict:
    values = {"loss.p": (loss, 1.0), "gradient.w": (gradient, exact), "update.w": (update, update)}
    found = {}
    for name, (arm, reference) in values.items():
        found |= {
            f"{name}.arm": np.array([arm]),
            f"{name}.float64": np.array([reference]),
            f"{name}.bound": np.array(bound),
            f"{name}.exact": np.array(1e-14),
        }
    return found


@pytest.mark.parametrize(
    ("here", "there", "cause", "words"),
    [
        (side(), side(), "BITWISE EQUAL", "all 3 values are equal, bit for bit"),
        (
            side(gradient=2 + 1.5e-6),
            side(),
            "ROUNDING",
            "2 of 3 values have equal bits; farthest apart is the gradient of w",
        ),
        (side(update=0.7), side(), "ROUNDING", "2 of 3 values have equal bits"),
        (
            side(gradient=2 + 3e-6),
            side(),
            "BUG",
            "the gradient of w differs by 3e-06 in the arm's precision, 1.5 times",
        ),
        (side(exact=2 + 1e-9), side(), "BUG", "the gradient of w differs by 1e-09 already in float64"),
        (side(loss=float("nan")), side(), "BUG", "the loss of p differs by nan"),
        (side(loss=float("nan")), side(loss=float("nan")), "BITWISE EQUAL", "all 3 values are equal, bit for bit"),
        (side(update=0.0), side(update=-0.0), "ROUNDING", "2 of 3 values have equal bits"),
        (side(exact=2 + 1.5e-14), side(), "BITWISE EQUAL", "all 3 values are equal, bit for bit"),
        ({}, side(), "UNKNOWN", "no value was kept here: the arm could not be held against float64"),
        (side(), {}, "UNKNOWN", "no value was kept there"),
        (
            {k: v for k, v in side().items() if "gradient" not in k},
            side(),
            "BUG",
            "the gradient of w is there on one side only",
        ),
    ],
)
def test_two_sides(here, there, cause, words):
    found = compare("plain", here, there)
    assert found.cause == cause
    assert words in found.detail
