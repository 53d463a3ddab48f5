"""The first operation that departs: found by name, line and module, in forward and backward, across element types."""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from ablate.audit.fresh import fresh_copies
from ablate.audit.operation_log import log_operations, recorded_call, seen
from ablate.audit.operations import departure, first_departure, first_module_departure

BOUND = 1e-4
"""Far above what float32 does to one operation of the sizes here: sqrt(n) u with n < 1000 is 4e-6."""


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 8, 3)
        self.norm = nn.BatchNorm2d(8)
        self.second = nn.Linear(800, 16)
        self.last = nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(self.first(x)).relu().flatten(1)
        return self.last(self.second(h).tanh())


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def made() -> tuple[nn.Module, nn.Module, Tensor, Tensor]:
    torch.manual_seed(0)
    model = Net()
    return model, copy.deepcopy(model).double(), torch.randn(8, 1, 12, 12), torch.randint(0, 3, (8,))


def step(model: nn.Module, x: Tensor, y: Tensor, context: Any = None) -> Callable[[], None]:
    buffers = copy.deepcopy(dict(model.named_buffers()))

    def run() -> None:
        for name, buffer in model.named_buffers():
            buffer.data.copy_(buffers[name])
        model.zero_grad()
        with context or nullcontext():
            F.cross_entropy(model(x), y).backward()

    return run


class Faulty(TorchDispatchMode):
    """Computes one operation wrongly where ``active``: its count-th call of that name."""

    def __init__(self, name: str, count: int, factor: float) -> None:
        super().__init__()
        self.name, self.count, self.factor, self.active = name, count, factor, False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if self.active and str(func) == self.name:
            self.count -= 1
            if self.count == -1:
                return result * self.factor
        return result

    def only(self, run: Callable[[], None]) -> Callable[[], None]:
        def faulty() -> None:
            self.active = True
            run()
            self.active = False

        return faulty


def test_float32_agrees_with_float64() -> None:
    model, double, x, y = made()
    assert first_departure(step(model, x, y), step(double, x.double(), y), BOUND, model) is None


@pytest.mark.parametrize(
    ("name", "count", "way", "module"),
    [
        ("aten.convolution.default", 0, "forward", "first (Conv2d)"),
        ("aten.addmm.default", 0, "forward", "second (Linear)"),
        ("aten.mm.default", 2, "backward", "second (Linear)"),
        ("aten.threshold_backward.default", 0, "backward", "the model itself (Net)"),
    ],
)
def test_a_wrong_operation_is_found(name: str, count: int, way: str, module: str) -> None:
    model, double, x, y = made()
    fault = Faulty(name, count, 1.001)
    with fault:
        found = first_departure(fault.only(step(model, x, y)), step(double, x.double(), y), BOUND, model)
    assert found is not None
    assert (found.kind, found.operation, found.forward_or_backward, found.module) == ("operation", name, way, module)
    # the sketch estimates the distance to (2 / 64)**(1/2); four standard errors
    assert found.error / found.scale == pytest.approx(1e-3, rel=4 * math.sqrt(2 / 64))
    assert found.words.startswith(f"the result of {name} ")
    assert "departs though its inputs agree by 0.0" in found.words
    assert f"module {module}" in found.words
    if "threshold" in name:
        line = inspect.getsourcelines(Net.forward)[1] + 1
        assert found.source.endswith(f"test_operations.py:{line} in Net.forward")
        assert "(backward) departs though" in found.words
        assert "in ReluBackward0" in found.words
        assert f"made at {found.source}" in found.words


class Wrong(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float) -> Tensor:
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x * x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        return grad * x * ctx.factor, None


def test_a_wrong_backward_of_the_users_own_is_found_at_its_line() -> None:
    w = torch.randn(5, requires_grad=True)

    def run(factor: float) -> Callable[[], None]:
        return lambda: (Wrong.apply(w, factor).sum() * 3).backward()

    found = first_departure(run(2.02), run(2.0), BOUND)
    assert found is not None
    assert found.operation == "aten.mul.Tensor"
    assert found.forward_or_backward == "backward"
    assert found.source.endswith("in Wrong.backward")
    assert "WrongBackward" in found.words


def test_a_target_overwritten_through_numpy_is_named_as_overwritten() -> None:
    torch.manual_seed(0)
    model = nn.Linear(4, 4)
    frames = torch.randn(3, 8, 4)
    buffer = np.zeros((8, 4), dtype=np.float32)

    def run(context: Callable[[], Any]) -> Callable[[], None]:
        def one() -> None:
            with context():
                total = torch.zeros(())
                for frame in frames:
                    buffer[:] = frame.numpy() + 1
                    total = total + F.mse_loss(model(frame), torch.from_numpy(buffer))
                total.backward()

        return one

    found = first_departure(run(nullcontext), run(fresh_copies), BOUND, model)
    assert found is not None
    assert (found.kind, found.operation) == ("input", "aten.mse_loss_backward.default")
    assert "what aten.mse_loss_backward.default in MseLossBackward0 (backward) reads departs by" in found.words
    assert found.words.endswith("; its memory held the right contents before, and was overwritten")
    assert "test_operations.py" in found.source


def test_another_input_from_the_start_is_said_to_be_none_of_the_operations_doing() -> None:
    model, double, x, y = made()
    found = first_departure(step(model, x * 1.1, y), step(double, x.double(), y), BOUND, model)
    assert found is not None
    assert (found.kind, found.operation) == ("input", "aten.convolution.default")
    assert found.words.endswith("; no operation seen here made it so")


def test_extra_copies_in_one_of_the_runs_do_not_matter() -> None:
    a, b = torch.randn(6, 6, requires_grad=True), torch.randn(6, 6)

    def run(copies: bool, factor: float) -> Callable[[], None]:
        def one() -> None:
            h = a @ b
            if copies:
                buffer = torch.zeros(3, 6, 6)
                for k in range(3):
                    buffer[k].copy_(h.detach())
            h = (h @ b).exp()
            if copies:
                h = h.clone()
            (h.log() * factor).sum().backward()

        return one

    assert first_departure(run(True, 2.0), run(False, 2.0), BOUND) is None
    found = first_departure(run(True, 2.1), run(False, 2.0), BOUND)
    assert found is not None
    assert (found.operation, found.forward_or_backward) == ("aten.mul.Tensor", "forward")


def test_differences_that_grow_bit_by_bit_are_told_from_a_jump() -> None:
    x = torch.ones(8, dtype=torch.float64)

    def run(factor: float) -> Callable[[], Tensor]:
        def one() -> Tensor:
            h = x
            for _ in range(60):
                h = h * factor
            return h

        return one

    found = first_departure(run(1.0 + 2e-6), run(1.0), 1e-4)
    assert found is not None
    assert (found.kind, found.position) == ("gradual", 49)  # (1 + 2e-6)**50 - 1 > 1e-4
    assert found.words.startswith("the result of aten.mul.Tensor (forward) is the first past the bound by 0.0001")
    assert found.words.endswith("; differences grew bit by bit, no one operation makes them")


def test_what_cancels_is_no_departure() -> None:
    """A sum that is 0 but for rounding differs wholly between float32 and float64."""
    x = torch.randn(1000)

    def run(t: Tensor) -> Callable[[], Tensor]:
        return lambda: (t - t.mean()).sum() + 1

    assert first_departure(run(x), run(x.double()), BOUND) is None


def test_a_result_that_is_not_finite_departs_without_limit() -> None:
    x = torch.full((3,), 100.0)
    found = first_departure(lambda: x.exp(), lambda: x.double().exp(), BOUND)
    assert found is not None
    assert (found.operation, found.error) == ("aten.exp.default", math.inf)
    assert "departs though its inputs agree without limit" in found.words
    assert first_departure(lambda: x.exp(), lambda: x.exp(), BOUND) is None


def test_values_are_not_changed_and_views_are_not_logged() -> None:
    model, _, x, y = made()
    run = step(model, x, y)
    run()
    before = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    records = log_operations(run, model)
    assert all(torch.equal(before[name], p.grad) for name, p in model.named_parameters() if p.grad is not None)
    assert not {"aten.t.default", "aten.view.default", "aten.detach.default"} & {r.operation for r in records}
    assert [r.operation for r in records if "copy" not in r.operation][:3] == [
        "aten.convolution.default",
        "aten.native_batch_norm.default",
        "aten.relu.default",
    ]
    assert departure(records, log_operations(run, model), 0.0) is None


def test_a_recorded_call_gives_the_same_result_again() -> None:
    model, _, x, y = made()
    run = step(model, x, y)
    records = log_operations(run, model)
    position = next(k for k, r in enumerate(records) if r.operation == "aten.mm.default")
    call = recorded_call(run, position)
    assert call is not None
    assert call.operation == "torch.ops.aten.mm.default"
    assert torch.equal(torch.ops.aten.mm.default(*call.args), call.results[0])
    assert recorded_call(run, len(records)) is None


def test_sketches_estimate_distances() -> None:
    """Unbiased in the square; relative standard error of the distance at most (2 / 64)**(1/2) / 2 = 9 %."""
    torch.manual_seed(0)
    ratios = []
    for n in (1, 7, 64, 1000, 70_000):
        for _ in range(8):
            a = torch.randn(n, dtype=torch.float64)
            b = a + 1e-6 * torch.randn(n, dtype=torch.float64)
            ratios.append(seen(a).distance(seen(b)) / float((a - b).norm()))
    assert all(0.55 < ratio < 1.45 for ratio in ratios)  # five standard errors
    assert abs(float(np.mean(np.square(ratios))) - 1) < 4 * math.sqrt(2 / 64 / len(ratios))
    assert seen(torch.ones(3, 4).t()).distance(seen(torch.ones(4, 3))) == 0.0


def test_modules_alone_can_be_compared() -> None:
    model, double, x, y = made()
    runs = step(model, x, y), step(double, x.double(), y)
    assert first_module_departure(*runs, BOUND, model, double) is None
    with torch.no_grad():
        model.second.bias.add_(0.1)
    found = first_module_departure(*runs, BOUND, model, double)
    assert found is not None
    assert found.by_module
    assert (found.operation, found.module) == ("output.second (Linear)", "second (Linear)")
    assert not model.second._forward_hooks
    model.second.bias.data.sub_(0.1)
    hook = model.last.weight.register_hook(lambda gradient: gradient * 1.01)
    found = first_module_departure(*runs, BOUND, model, double)
    hook.remove()
    assert found is not None
    assert (found.operation, found.forward_or_backward) == ("gradient.parameter last.weight", "backward")
