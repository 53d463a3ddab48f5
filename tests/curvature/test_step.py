"""The escape rate against the optimisers themselves: iterate one beside a saddle and look how fast it leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from ablate.curvature import Curvature, Step, escape_rate, probe, step_of
from ablate.curvature.step import escape

CURVED = torch.tensor([-2.0, -0.5, 1.0, 3.0], dtype=torch.float64)
TINY = 1e-150
"""Start so near the saddle that Adam's second moments, held at ``HELD``, do not see what grows."""

HELD = torch.tensor([4.0, 0.09, 1.0, 9.0], dtype=torch.float64)


class Saddle(nn.Module):
    def __init__(self, matrix: Tensor) -> None:
        super().__init__()
        self.matrix = matrix
        self.x = nn.Parameter(torch.zeros(len(matrix), dtype=torch.float64))

    def forward(self) -> Tensor:
        return self.x @ self.matrix @ self.x / 2


def looked(matrix: Tensor, bottom: int = 1) -> Curvature:
    return probe(Saddle(matrix), lambda m, _: m(), [torch.zeros(1)], bottom=bottom)


def measured(matrix: Tensor, make: Callable[[Iterator[nn.Parameter]], torch.optim.Optimizer], hold: bool) -> float:
    """Return the growth of the parameters' norm in the last of many steps from beside the saddle."""
    model = Saddle(matrix)
    optimiser = make(model.parameters())
    torch.manual_seed(1)
    with torch.no_grad():
        model.x.copy_(TINY * torch.randn(len(matrix), dtype=torch.float64))
    sizes = []
    for _ in range(1500):
        optimiser.zero_grad()
        model().backward()
        if hold and optimiser.state:
            group = optimiser.param_groups[0]  # the step itself lets them decay before it uses them
            held_at(optimiser, model.x, 1 / (group["alpha"] if "alpha" in group else group["betas"][1]))
        optimiser.step()
        sizes.append(float(model.x.detach().norm()))
    return float(np.log(sizes[-1] / sizes[-2]))


def held_at(optimiser: torch.optim.Optimizer, parameter: Tensor, times: float = 1.0) -> None:
    """Put the second moments where they are to stay; the step count is one at which no correction is left."""
    state = optimiser.state[parameter]
    state["square_avg" if "square_avg" in state else "exp_avg_sq"].copy_(HELD * times)
    state["step"].fill_(1e6)


def stepped(make: Callable[[Any], torch.optim.Optimizer], model: nn.Module) -> torch.optim.Optimizer:
    """Return an optimiser that made a step, with its second moments held."""
    optimiser = make(model.parameters())
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    optimiser.step()
    for p in model.parameters():
        if "step" in optimiser.state.get(p, {}):
            held_at(optimiser, p)
    return optimiser


PLAIN = {
    "plain": lambda p: torch.optim.SGD(p, lr=0.01),
    "heavy ball": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9),
    "dampened": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, dampening=0.5),
    "Nesterov": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, nesterov=True),
    "decay": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.5, weight_decay=0.3),
}
SCALED = {
    "Adam": lambda p: torch.optim.Adam(p, lr=0.03),
    "Adam, decay": lambda p: torch.optim.Adam(p, lr=0.03, weight_decay=0.1),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=0.03, weight_decay=0.1),
    "RMSprop": lambda p: torch.optim.RMSprop(p, lr=0.03, momentum=0.5),
}


@pytest.mark.parametrize("name", [*PLAIN, *SCALED])
def test_the_rate_is_that_of_the_steps_themselves(name: str) -> None:
    """Where the curvature lies along parameters the rule is exact, second moments held."""
    matrix = torch.diag(CURVED)
    make = (PLAIN | SCALED)[name]
    step = step_of(stepped(make, model := Saddle(matrix)), dict(model.named_parameters()))
    rate, _, method = escape(looked(matrix, bottom=2).edges, step)
    assert rate == pytest.approx(measured(matrix, make, name in SCALED), rel=1e-6)
    assert method == step.kind + (": at least, diagonal held" if name in SCALED else "")


@pytest.mark.parametrize("name", SCALED)
def test_a_rate_under_second_moments_is_a_lower_bound_that_more_vectors_raise(name: str) -> None:
    q, _ = torch.linalg.qr(torch.randn(4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)))
    matrix = (q * CURVED) @ q.T
    make = SCALED[name]
    step = step_of(stepped(make, model := Saddle(matrix)), dict(model.named_parameters()))
    true = measured(matrix, make, hold=True)
    rates = [escape(looked(matrix, bottom=k).edges, step)[0] or 0.0 for k in (1, 2, 4)]
    assert 0 < rates[0] <= rates[1] <= rates[2]
    assert rates[0] < 0.99 * true  # the Hessian's own vector is not the fastest one
    assert rates[2] == pytest.approx(true, rel=1e-6)  # all of them span it


def test_the_bound_is_the_edges() -> None:
    found = looked(torch.diag(CURVED))
    rate, bound, _ = escape(found.edges, Step("SGD", 0.01))
    assert rate == escape_rate(found.bottom.value, 0.01)
    assert bound == pytest.approx(0.01 * found.bottom.bound / 1.02, rel=1e-2, abs=1e-16)


def test_upwards_and_under_enough_decay_nothing_escapes() -> None:
    assert escape_rate(2.0, 0.01, 0.9) == 0.0
    assert escape_rate(-2.0, 0.01, shrink=0.9) == 0.0
    assert escape(looked(torch.diag(CURVED)).edges, Step("SGD", 0.01, added=2.5))[0] == 0.0


def test_parameters_the_optimiser_has_not_stay_and_groups_have_their_own_rates() -> None:
    model = nn.ParameterList([nn.Parameter(torch.zeros(1, dtype=torch.float64)) for _ in range(3)])
    groups = [{"params": [model[1]], "lr": 0.1}, {"params": [model[0]], "lr": 0.2}]
    step = step_of(torch.optim.SGD(groups, lr=1.0), dict(model.named_parameters()))
    assert step.rate == 0.1
    assert step.scale is not None
    assert step.scale.tolist() == [2.0, 1.0, 0.0]
    lowest_is_still = looked(torch.diag(torch.tensor([1.0, -1.0, -3.0], dtype=torch.float64)), bottom=1)
    assert escape(lowest_is_still.edges, step)[0] == 0.0
    both = looked(torch.diag(torch.tensor([1.0, -1.0, -3.0], dtype=torch.float64)), bottom=2)
    assert escape(both.edges, step)[0] == pytest.approx(np.log1p(0.1))
    groups[0]["lr"] = 0.0
    frozen_first = step_of(torch.optim.SGD(groups, lr=1.0), dict(model.named_parameters()))
    assert frozen_first.scale is not None
    assert (frozen_first.rate, frozen_first.scale.tolist()) == (0.2, [1.0, 0.0, 0.0])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda p: torch.optim.Adagrad(p), "no rule for Adagrad"),
        (lambda p: Mine(p), f"no rule for {__name__}.Mine"),
        (lambda p: torch.optim.SGD(p, maximize=True), "no rule for SGD that maximises"),
        (lambda p: torch.optim.Adam(p), "no rule for Adam before its first step"),
        (
            lambda p: torch.optim.SGD([{"params": p, "momentum": 0.5}, {"params": [nn.Parameter(torch.zeros(1))]}]),
            "no rule for SGD whose groups differ in momentum or weight decay",
        ),
    ],
)
def test_an_optimiser_without_a_rule_is_named(make: Callable[[Any], torch.optim.Optimizer], words: str) -> None:
    model = Saddle(torch.diag(CURVED))
    step = step_of(make(list(model.parameters())), dict(model.named_parameters()))
    assert escape(looked(torch.diag(CURVED)).edges, step) == (None, None, words)


class Mine(torch.optim.SGD):
    """Has torch's groups, but who knows what it does with them."""
