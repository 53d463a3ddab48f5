"""Where a fault is: named by line, and shown by a file of its own that exits with 1."""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from audited_study import Judged, arm, judge
from torch import Tensor, nn

from ablate.audit.distance import judge as judge_one
from ablate.audit.measured import measure
from ablate.audit.roundoff import FLOAT32
from ablate.design.trial_spec import Numerics
from ablate.trial.where import Where


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def departure(judged: Judged) -> dict[str, object]:
    (row,) = (row for row in judged.rows if row["check"] == "departure")
    return row


def file(judged: Judged) -> Path:
    path = judged.run.paths.root / str(departure(judged)["role"])
    assert len(path.read_text().splitlines()) < 40
    return path


def run(path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False, timeout=120)


def shown(judged: Judged) -> subprocess.CompletedProcess[str]:
    return run(file(judged))


def test_a_scaled_gradient_is_shown_against_the_slope(tmp_path: Path) -> None:
    judged = judge(tmp_path, "Mlp", arm(fault="scaled"), batches=1, audit=1)
    row = departure(judged)
    assert (row["verdict"], row["near"], row["detail"]) == (
        "found",
        "backward",
        "the gradient is not the slope of the loss",
    )
    done = shown(judged)
    assert done.returncode == 1, done.stderr
    # the planted factor is 1.01; central differences in float64 are good to far better than a thousandth of it
    error = float(done.stdout.split("largest relative error ")[1].split(",")[0])
    assert error == pytest.approx(0.01, rel=1e-3)
    assert "in 0.weight" in done.stdout


def test_an_overwritten_tensor_is_shown_beside_clones(tmp_path: Path) -> None:
    judged = judge(tmp_path, "Window", arm(fault="alias"), batches=1, audit=1)
    assert departure(judged)["detail"] == "a saved tensor is overwritten"
    assert shown(judged).returncode == 1


def test_another_function_is_placed_by_its_first_departing_operation(tmp_path: Path) -> None:
    judged = judge(tmp_path, "Mlp", arm(fault="term"), batches=1, audit=1)
    row = departure(judged)
    assert row["verdict"] == "found"
    assert "audited_mlp.py:" in str(row["source"])
    assert "the code of reference runs aten.pow.Tensor_Scalar at " in str(row["detail"])


@pytest.mark.parametrize(
    ("trainable", "fault"),
    [
        ("Mlp", "term"),
        pytest.param("Mlp", "reduction", marks=pytest.mark.slow),
        pytest.param("Mlp", "rate", marks=pytest.mark.slow),
        pytest.param("Tied", "decay", marks=pytest.mark.slow),
        pytest.param("BatchNorm", "stale buffer", marks=pytest.mark.slow),
    ],
)
def test_what_settings_make_wrong_is_shown_beside_the_reference_arms(
    tmp_path: Path, trainable: str, fault: str
) -> None:
    judged = judge(tmp_path, trainable, arm(fault=fault), batches=1, audit=1)
    path = file(judged)
    done = run(path)
    assert done.returncode == 1, done.stderr
    for dtype in ("torch.float32", "torch.float64"):
        for name in ("other", "reference"):
            line = next(line for line in done.stdout.splitlines() if f" in {dtype}, {name}: [" in line)
            assert tuple(line.partition(" in torch.")[0].split(" of ")) in judged.named()
    assert "largest relative error" in done.stdout
    text, settings = path.read_text(), f"'other': {{'fault': {fault!r}}}"
    assert settings in text
    path.write_text(text.replace(settings, "'other': {}"))  # equal settings
    done = run(path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "largest relative error 0 in float64" in done.stdout


def test_a_right_arm_has_no_departure(tmp_path: Path) -> None:
    judged = judge(tmp_path, "Mlp", arm({"onednn": False}, order=0), batches=1, audit=1)
    assert not [row for row in judged.rows if row["check"] == "departure"]


class Layer(nn.Linear):
    """Multiplies what it gives by a factor: other than 1 it stands for what torch.compile made wrong."""

    factor = 1.0

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * self.factor


@pytest.mark.parametrize("wrong", [True, False])
def test_a_fault_of_compiled_code_alone_is_placed_by_modules_and_said_if_it_is_gone_there(wrong: bool) -> None:
    model = nn.Sequential(Layer(6, 5), nn.Tanh(), Layer(5, 1))
    x = torch.randn(4, 6)
    asked = []

    def stepping(model: nn.Module, dtype: torch.dtype) -> Any:
        def step(at: object) -> None:
            model.zero_grad()
            model(x.to(dtype)).square().sum().backward()

        return SimpleNamespace(stepper=SimpleNamespace(model=model), step=step)

    def rerun(dtype: torch.dtype, compiled: bool) -> Any:
        asked.append((dtype, compiled))
        made = copy.deepcopy(model)
        made[2].factor = 1.01 if compiled and wrong else 1.0
        return stepping(made, dtype)

    exact = torch.ones(1, 5, dtype=torch.float64)
    fault = judge_one(measure("gradient", "2.weight", exact.float() * 1.01, exact), roundoff=FLOAT32, reduction=6)
    session: Any = SimpleNamespace(spec=SimpleNamespace(numerics=Numerics(compile=True)))
    reference = stepping(copy.deepcopy(model).double(), torch.float64)
    at: Any = None
    row = Where(session, at, reference, rerun, reduction=6, roundoff=FLOAT32).of_a_distance(fault)
    assert asked == [(torch.float32, False), (torch.float32, True)]
    why = "run as written, without torch.compile, no operation departs: the fault is in the compiled code; "
    if wrong:
        assert (row["verdict"], row["near"]) == ("found", "output.2 (Layer)")
        words = (
            "with each module compiled apart, the result of output.2 (Layer) (forward) departs though its inputs agree"
        )
        assert str(row["detail"]).startswith(why + words)
    else:
        assert (row["verdict"], row["near"]) == ("none", "torch.compile")
        assert row["detail"] == why + "it is not there either where each module is compiled apart"
