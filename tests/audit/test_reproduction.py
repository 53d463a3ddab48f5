"""Reproductions: short files that stand alone, exit with 1 while the fault shows and with 0 when it is gone."""

from __future__ import annotations

import math
import os
import runpy
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch

from ablate.audit.literal import Literals
from ablate.audit.operation_log import Call, log_operations, recorded_call
from ablate.audit.reproduction import Subject, write_gradient, write_operation

TRAINABLE = '''
import numpy as np
import torch
from torch import nn

from ablate.trial.protocol import Player


class Wrong(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1.0

    @staticmethod
    def backward(ctx, grad):
        return grad * 1.01


class Thing:
    """Three targets in one buffer, which aliases them (or not); a backward that is wrong (or not)."""

    def __init__(self, *, alias=False, wrong=False, names=("a", "b")):
        self.alias, self.wrong = alias, wrong

    def build(self):
        return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 4))

    def players(self, model):
        return [Player("all", dict(model.named_parameters()), torch.optim.SGD(model.parameters(), lr=0.1))]

    def loss(self, model, batch, carry):
        x = batch.tensors["x"]
        buffer = np.zeros(x[0].shape, dtype=x.numpy().dtype)
        total = carry["offset"].sum()
        for frame in x:
            buffer[:] = frame.numpy() + 1
            target = torch.from_numpy(buffer)
            h = model(frame)
            total = total + (Wrong.apply(h) if self.wrong else h).sub(0.3).mul(target if self.alias else target.clone()).square().sum()
        return total, carry
'''  # noqa: E501


def run_reproduction(path: Path) -> tuple[bool, str]:
    """In a process of its own, which finds what this one finds: whether the fault showed, and what was printed."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(place or os.getcwd() for place in sys.path)}
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, timeout=300, check=False, env=environment
    )
    return done.returncode == 1 and "largest relative error" in done.stdout, done.stdout + done.stderr


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


def run_here(path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[bool, str]:
    """In this process, which has imported torch already."""
    dtype, threads = torch.get_default_dtype(), torch.get_num_threads()
    try:
        with pytest.raises(SystemExit) as left:
            runpy.run_path(str(path), run_name="__main__")
    finally:
        torch.set_default_dtype(dtype)
        torch.set_num_threads(threads)
    return bool(left.value.code), capsys.readouterr().out


def call_of(run: Any, operation: str) -> Call:
    position = next(k for k, record in enumerate(log_operations(run)) if record.operation == operation)
    call = recorded_call(run, position)
    assert call is not None
    return call


def test_an_operation_that_is_wrong_here_shows_its_fault(tmp_path: Path) -> None:
    """float32's sum of squares overflows where float64's does not: a fault that needs no broken torch."""
    x = torch.full((3,), 1e30)
    path = write_operation(tmp_path / "r.py", call_of(lambda: x * x, "aten.mul.Tensor"), 1e-5, 'mul is "inf"\nhere')
    shows, printed = run_reproduction(path)
    assert shows, printed
    assert "result 0 here:       [inf, inf, inf]" in printed
    assert "result 0 in float64: [1" in printed
    assert "largest relative error inf, bound 1e-05" in printed
    assert lines(path)[0] == '"""mul is \'inf\' here'
    assert lines(path)[1] == 'Exits with 1 while the fault shows. Needs torch."""'
    assert [file.name for file in tmp_path.iterdir()] == ["r.py"]  # tiny tensors are written out
    assert len(lines(path)) < 40
    assert "ablate" not in path.read_text()


@pytest.mark.parametrize("bound", [1e-9, 1e-4])
def test_larger_inputs_lie_beside_it_in_their_layout(
    tmp_path: Path, bound: float, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.manual_seed(0)
    x, w = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last), torch.randn(4, 3, 3, 3)
    bias = torch.randn(1).expand(4)

    def run() -> object:
        return torch.nn.functional.conv2d(x, w, bias, padding=1)

    call = call_of(run, "aten.convolution.default")
    path = write_operation(tmp_path / "r.py", call, bound, "convolution", setup=["torch.set_num_threads(1)"])
    shows, printed = run_here(path, capsys)
    # float32 errs by more than 1e-9 and by less than sqrt(27) u times a few
    assert shows == (bound == 1e-9), printed
    assert "largest relative error" in printed
    assert sorted(file.name for file in tmp_path.iterdir()) == ["r.py", "r.safetensors"]
    text = path.read_text()
    assert f"torch.empty_strided((2, 3, 8, 8), {x.stride()}, dtype=torch.float32)" in text
    assert ".expand((4,))" in text
    assert "torch.set_num_threads(1)" in text
    assert len(lines(path)) < 40


def test_an_operation_in_place_starts_from_its_inputs_each_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    x = torch.ones(20)
    path = write_operation(tmp_path / "r.py", call_of(lambda: x.add_(1), "aten.add_.Tensor"), 1e-5, "add")
    shows, printed = run_here(path, capsys)
    assert not shows
    assert "largest relative error 0, bound 1e-05" in printed


def test_an_element_type_asked_for_follows_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = torch.full((3,), 1 / 3)
    path = write_operation(
        tmp_path / "r.py", call_of(lambda: x.sum(0, dtype=torch.float32), "aten.sum.dim_IntList"), 1e-5, "sum"
    )
    assert "dtype=dtype" in path.read_text()
    assert not run_here(path, capsys)[0]


@pytest.fixture
def subject(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "their_model.py").write_text(textwrap.dedent(TRAINABLE))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "their_model", raising=False)
    import their_model  # type: ignore[import-not-found]

    def make(**settings: Any) -> Subject:
        torch.manual_seed(0)
        weights = their_model.Thing().build().state_dict()
        batch = {"x": torch.randn(3, 8, 4)}
        carry = {"offset": torch.randn(20), "more": [None, (1, 2.5)]}
        settings["names"] = ["x", "y"]
        return Subject("their_model:Thing", settings, weights, batch, range(8), carry, "all")

    return make


@pytest.mark.parametrize("alias", [True, False])
def test_an_overwritten_saved_tensor_shows_beside_clones(
    tmp_path: Path, subject: Any, alias: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_gradient(tmp_path / "g.py", subject(alias=alias), "clone", 1e-5, "target overwritten")
    shows, printed = run_reproduction(path) if alias else run_here(path, capsys)
    assert shows == alias, printed
    assert "with every saved tensor cloned: [" in printed
    assert "bound 1e-05" in printed
    assert len(lines(path)) < 40
    assert [line for line in lines(path) if "ablate" in line and "import" in line] == [
        "from ablate.trial.protocol import Batch"
    ]
    assert lines(path)[1].endswith('Needs torch, numpy, safetensors, ablate and their_model."""')


@pytest.mark.parametrize("wrong", [True, False])
def test_a_wrong_backward_shows_beside_the_slope(
    tmp_path: Path, subject: Any, wrong: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    guilty = ["2.weight", "2.bias"]
    path = write_gradient(tmp_path / "g.py", subject(wrong=wrong), "slope", 1e-3, "wrong backward", parameters=guilty)
    shows, printed = run_reproduction(path) if wrong else run_here(path, capsys)
    assert shows == wrong, printed
    if wrong:
        assert "largest relative error 0.01, in 2." in printed
    assert "2.weight: gradient" in printed
    assert "slope of the loss" in printed
    assert len(lines(path)) < 40


def test_values_survive_as_expressions() -> None:
    values = [None, True, 3, 2.5, "a'b", (1,), (), [1, [2]], {"k": (1.0, None)}, torch.float32, torch.strided]
    for value in [*values, torch.channels_last, torch.device("cpu"), math.inf]:
        assert eval(Literals("x").of(value)) == value
    assert math.isnan(eval(Literals("x").of(math.nan)))


def test_values_without_an_expression_are_refused() -> None:
    with pytest.raises(ValueError, match="a value of type Generator cannot be written as a Python expression"):
        Literals("x").of(torch.Generator())
    with pytest.raises(ValueError, match=r"a tensor of layout torch\.sparse_coo cannot be written to a file"):
        Literals("x").of(torch.eye(2).to_sparse())


@pytest.mark.parametrize(
    "t",
    [
        torch.arange(6.0).reshape(2, 3),
        torch.tensor([math.nan, math.inf, -0.0]),
        torch.tensor([True, False]),
        torch.arange(24, dtype=torch.bfloat16).reshape(4, 6).t(),
        torch.arange(12.0).reshape(3, 4, 1).expand(3, 4, 5),
        torch.tensor(7, dtype=torch.int64),
        torch.arange(40.0)[::2],
    ],
)
def test_tensors_come_back_with_contents_and_layout(t: torch.Tensor) -> None:
    literals = Literals("x")
    key = literals.of(t)
    x = dict(literals.stored())
    for made in (literals.inline(), literals.layouts()):
        for name, expression in made.items():
            x[name] = eval(expression, {"torch": torch, "x": x})
    back = eval(key, {"x": x})
    assert back.dtype is t.dtype
    assert back.stride() == t.stride()
    assert torch.equal(torch.nan_to_num(back.double()), torch.nan_to_num(t.double()))
