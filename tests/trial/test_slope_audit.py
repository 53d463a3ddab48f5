"""The slope check on a trainable whose functions have backwards of their own: steps are left out, faults are not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ablate.trial.audit_rows import slope_rows
from ablate.trial.protocol import Batch, Carry, Player
from ablate.trial.slope_audit import SlopeAudit
from ablate.trial.step import Stepper

Pass = Callable[[Tensor], Tensor]
Row = dict[str, Any]


def function(forward: Pass, backward: Callable[[Tensor, Tensor], Tensor]) -> Pass:
    """A custom autograd function of one tensor."""

    class Custom(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return forward(x)

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
            return backward(ctx.saved_tensors[0], gradient)

    return Custom.apply  # type: ignore[no-any-return]


def straight(x: Tensor, gradient: Tensor) -> Tensor:
    return gradient


def within(x: Tensor, gradient: Tensor) -> Tensor:
    return gradient * (x.abs() < 1)


def by_its_largest(x: Tensor) -> Tensor:
    width = x.abs().max() / 127
    return (x / width).round() * width


def by_each_rows_largest(x: Tensor) -> Tensor:
    width = x.abs().amax(1, keepdim=True) / 127
    return (x / width).round() * width


STEPS: dict[str, Pass] = {
    "sign": function(torch.sign, straight),
    "sign, clipped": function(torch.sign, within),
    "round": function(torch.round, straight),
    "fake quantisation": function(lambda x: (x.clamp(-1, 1) * 8).round() / 8, within),
    "8 bits of the largest element": function(by_its_largest, straight),
    "8 bits of each row's largest": function(by_each_rows_largest, straight),
    "through NumPy": function(lambda x: torch.from_numpy(np.sign(x.detach().numpy())), straight),
    "torch's own": lambda x: torch.fake_quantize_per_tensor_affine(x.float(), 0.1, 0, -128, 127).to(x.dtype),
}

FAULTS: dict[str, Pass] = {
    "1.01 times": function(torch.tanh, lambda x, g: g * (1 - x.tanh() ** 2) * 1.01),
    "another sign": function(torch.tanh, lambda x, g: -g * (1 - x.tanh() ** 2)),
    "a term less": function(lambda x: x * x.sigmoid(), lambda x, g: g * x.sigmoid()),
    "relu, passed on everywhere": function(torch.relu, straight),
    "relu, 1.01 times": function(torch.relu, lambda x, g: g * (x > 0) * 1.01),
    "clamp, passed on everywhere": function(lambda x: x.clamp(-0.1, 0.1), straight),
    "reversal": function(lambda x: x.clone(), lambda x, g: -0.5 * g),
}


class Net:
    """Three layers; a function is applied to the first one's outputs, to its weight, or to two layers' outputs."""

    def __init__(self, custom: Pass, where: str) -> None:
        self.custom, self.where = custom, where

    def build(self) -> nn.Module:
        return nn.Sequential(nn.Linear(6, 16), nn.Linear(16, 16), nn.Linear(16, 1))

    def players(self, model: nn.Module) -> list[Player]:
        return [Player("all", dict(model.named_parameters()), torch.optim.SGD(model.parameters(), lr=0.1))]

    def loss(self, model: Any, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        x = batch.tensors["x"]
        if self.where == "weight":
            h = F.linear(x, self.custom(model[0].weight), model[0].bias).tanh()
        else:
            h = self.custom(model[0](x))
        h = model[1](h)
        h = self.custom(h) if self.where == "twice" else h.tanh()
        h = model[2](h)
        return F.mse_loss(self.custom(h) if self.where == "last" else h, batch.tensors["y"]), carry


@pytest.fixture(autouse=True)
def _float64() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def audit(custom: Pass, where: str, frozen: bool = False) -> tuple[list[Row], SlopeAudit]:
    torch.manual_seed(0)
    net = Net(custom, where)
    stepper = Stepper(net, net.build())
    stepper.model[0].weight.requires_grad_(not frozen)  # type: ignore[index,union-attr]
    batch = Batch(np.arange(12), {"x": torch.randn(12, 6), "y": torch.rand(12, 1)})
    before = [p.detach().clone() for p in stepper.model.parameters()]
    looking = SlopeAudit(stepper, batch)
    looking.begin()
    player = stepper.players[0]
    stepper.loss(player, batch)[0].backward()  # type: ignore[no-untyped-call]
    looking.slope(player)
    assert all(map(torch.equal, before, stepper.model.parameters()))  # every parameter is put back
    return list(slope_rows(looking.results, looking.stopped, looking.behind)), looking


@pytest.mark.parametrize(
    ("kind", "where"),
    [*((kind, "outputs") for kind in STEPS), *((kind, "weight") for kind in STEPS), ("sign", "twice")],
)
def test_what_is_behind_a_step_is_not_judged_and_the_rest_is(kind: str, where: str) -> None:
    rows, _ = audit(STEPS[kind], where)
    assert [row["verdict"] for row in rows] == ["unjudged", "clean"], rows
    behind = {
        "outputs": "0.weight, 0.bias",
        "weight": "0.weight",
        "twice": "0.weight, 0.bias, 1.weight, 1.bias",
    }[where]
    words = rows[0]["detail"]
    assert words.endswith(f"so no slope can judge what is behind it: {behind}")
    assert "replaced, on purpose (a straight-through estimator) or not: forward is a step function" in words
    assert "does not follow steps of 3e-08 and 1e-07 of the parameters' size" in words
    who = "FakeQuantizePerTensorAffineCachemask" if kind == "torch's own" else "Custom ("
    assert words.startswith(f"the gradient of {who}")
    assert ("test_slope_audit.py:27)" in words) == (kind != "torch's own")


def test_where_everything_is_behind_a_step_nothing_is_judged() -> None:
    rows, _ = audit(STEPS["sign"], "last")
    assert [row["verdict"] for row in rows] == ["unjudged"]


@pytest.mark.parametrize("where", ["outputs", "weight"])
@pytest.mark.parametrize("kind", FAULTS)
def test_a_wrong_backward_of_what_is_no_step_is_found_and_named(kind: str, where: str) -> None:
    rows, _ = audit(FAULTS[kind], where)
    expected = {"0.weight"} if where == "weight" else {"0.weight", "0.bias"}
    assert {row["verdict"] for row in rows} == {"bug"}
    assert {row["name"] for row in rows} <= expected
    for row in rows:
        assert "or one replaced on purpose (gradient reversal, clipping in a backward or a hook)" in row["detail"]
        assert "looks the same and cannot be declared; it passes through the backward of Custom (" in row["detail"]


def test_a_fault_beside_a_step_is_found() -> None:
    step, fault = STEPS["sign"], FAULTS["1.01 times"]
    rows, _ = audit(lambda x: step(x) if x.shape[1] == 16 else fault(x), "outputs")
    assert [row["verdict"] for row in rows] == ["unjudged", "clean"]  # the last layer does not pass through it
    rows, _ = audit(lambda x: step(x) if x.shape[1] == 16 else fault(x), "last")
    assert {row["verdict"] for row in rows[1:]} == {"bug"}
    assert "2.bias" in {row["name"] for row in rows}

    calls = 0

    def both(x: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        return step(x) if calls % 2 else fault(x)

    rows, _ = audit(both, "twice")
    assert [(row["verdict"], row["name"]) for row in rows] == [
        ("unjudged", "all"),
        ("bug", "1.weight"),
        ("bug", "1.bias"),
    ]


def test_a_step_made_with_detach_beside_one_made_with_a_function() -> None:
    step = STEPS["sign"]
    calls = 0

    def both(x: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        return step(x) if calls % 2 else x + (x.sign() - x).detach()

    rows, looking = audit(both, "twice")
    assert [row["verdict"] for row in rows] == ["unjudged", "unjudged"]
    assert "0.weight, 0.bias" in rows[0]["detail"]
    assert "test_slope_audit.py" in looking.stopped["all"][0]


@pytest.mark.parametrize("hard", [True, False])
def test_gumbel_softmax_is_no_bug(hard: bool) -> None:
    def gumbel(x: Tensor) -> Tensor:
        noise = -torch.log(-torch.log(torch.rand(x.shape, generator=torch.Generator().manual_seed(3))))
        soft = (x + noise).softmax(-1)
        one = F.one_hot(soft.argmax(-1), x.shape[-1]).to(x.dtype)
        return one - soft.detach() + soft if hard else soft

    rows, _ = audit(gumbel, "outputs")
    assert [row["verdict"] for row in rows] == ["unjudged" if hard else "clean"]


@pytest.mark.parametrize(
    "look",
    [
        lambda x: x.detach().numpy().mean(),
        lambda x: np.asarray(x.detach()).mean(),
        lambda x: x.detach().clone().requires_grad_(),  # a leaf, and fails where it is none
    ],
    ids=["numpy", "array", "leaf"],
)
def test_a_fault_beside_what_is_detached_to_look_at_it_is_found(look: Callable[[Tensor], object]) -> None:
    wrong = FAULTS["1.01 times"]

    def looks(x: Tensor) -> Tensor:
        made = wrong(x)
        look(made)
        return made

    rows, _ = audit(looks, "outputs")
    assert {row["verdict"] for row in rows} == {"bug"}, rows


def test_a_frozen_parameter_is_left_out_and_a_fault_beside_it_is_found() -> None:
    rows, _ = audit(lambda x: x.tanh(), "outputs", frozen=True)
    assert [row["verdict"] for row in rows] == ["clean"]
    rows, _ = audit(FAULTS["1.01 times"], "outputs", frozen=True)
    assert {(row["verdict"], row["name"]) for row in rows} == {("bug", "0.bias")}


def test_a_smooth_function_in_float32_is_taken_for_no_step() -> None:
    wrong = function(lambda x: (x.float() * 1.1).to(x.dtype), lambda x, g: 3 * g)
    _, looking = audit(wrong, "outputs")
    assert not looking.behind
