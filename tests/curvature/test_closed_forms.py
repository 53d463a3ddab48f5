"""Points whose Hessian is known by hand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from ablate.curvature import Curvature, probe
from ablate.curvature.critical import Decrement

EPS = float(np.finfo(np.float64).eps)


class Point(nn.Module):
    """Parameters at a point, and a function of them."""

    def __init__(self, at: list[float] | Tensor) -> None:
        super().__init__()
        self.x = nn.Parameter(torch.as_tensor(at, dtype=torch.float64))


def look_at(f: Callable[[Tensor], Tensor], at: list[float] | Tensor, **plan: object) -> Curvature:
    return probe(Point(at), lambda model, _: f(model.x), [torch.zeros(1)], **plan)  # type: ignore[arg-type]


@pytest.mark.parametrize("exact_below", [0, 200])
def test_a_bowl(exact_below: int) -> None:
    scales = torch.tensor([1.0, 2.0, 5.0, 9.0], dtype=torch.float64)
    found = look_at(lambda x: (scales * x**2).sum() / 2 + 3, [0.0] * 4, exact_below=exact_below)
    assert found.kind == "near a minimum"
    assert found.top.value == pytest.approx(9, abs=found.top.bound)
    assert found.bottom.value == pytest.approx(1, abs=found.bottom.bound)
    assert found.bottom.bound < 1e-12
    assert found.bottom.sign == 1
    assert found.index.at_least == 0
    assert found.trace is not None
    assert found.trace.value == pytest.approx(17, abs=1e-12 + 4 * found.trace.standard_error)


@pytest.mark.parametrize("exact_below", [0, 200])
def test_a_saddle(exact_below: int) -> None:
    found = look_at(lambda x: x[0] ** 2 - x[1] ** 2, [0.0, 0.0], exact_below=exact_below)
    assert found.kind == "near a saddle"
    assert (found.top.value, found.bottom.value) == pytest.approx((2.0, -2.0), abs=8 * EPS)
    assert found.index.at_least == 1
    assert found.ratio == pytest.approx(1)


def test_a_saddle_left_behind_is_a_slope() -> None:
    """At (1, 1) reaching the critical point would change the loss by 2, and the loss is 1."""
    found = look_at(lambda x: x[0] ** 2 - x[1] ** 2 + 1, [1.0, 1.0])
    assert found.kind == "on a slope"
    assert found.decrement == Decrement(pytest.approx(2), pytest.approx(2))
    assert found.gradient.negative == pytest.approx(0.5)
    assert found.gradient.curvature == pytest.approx(0, abs=8 * EPS)


def test_a_monkey_saddle_has_no_curvature_at_its_middle() -> None:
    found = look_at(lambda x: x[0] ** 3 - 3 * x[0] * x[1] ** 2, [0.0, 0.0])
    assert (found.top.value, found.bottom.value) == (0.0, 0.0)
    assert found.index.at_least == 0
    assert found.bottom.sign == 0


def test_a_deep_linear_network_is_at_a_saddle_where_all_weights_vanish() -> None:
    """Loss (1 - w1 w2)^2 / 2 at 0: gradient 0, Hessian [[0, -1], [-1, 0]] (Kawaguchi 2016)."""
    found = look_at(lambda w: (1 - w[0] * w[1]) ** 2 / 2, [0.0, 0.0])
    assert found.kind == "near a saddle"
    assert (found.bottom.value, found.top.value) == pytest.approx((-1, 1), abs=8 * EPS)
    assert found.index.share is not None
    assert found.index.share.value == 0.5


def test_a_degenerate_saddle_of_three_layers_is_not_called_a_saddle() -> None:
    """(1 - w1 w2 w3)^2 / 2 at 0: its Hessian is 0, and only third derivatives know that it is a saddle."""
    found = look_at(lambda w: (1 - w.prod()) ** 2 / 2, [0.0, 0.0, 0.0])
    assert found.kind != "near a saddle"
    assert found.index.at_least == 0


def test_a_linear_loss_has_no_curvature() -> None:
    found = look_at(lambda x: x.sum(), torch.ones(300))
    assert (found.top.value, found.bottom.value) == (0.0, 0.0)
    assert found.kind == "on a slope"


def test_sizes_weigh_batches_that_are_no_tensors_and_progress_is_told() -> None:
    """A mean of x^2 / 2 with weight 3 / 4 and 2 x^2 with 1 / 4: curvature 3/4 + 1, of 300 parameters."""
    told: list[int] = []
    found = probe(
        Point(torch.zeros(300)),
        lambda model, batch: batch["scale"] * (model.x**2).sum() / 2,
        [{"scale": 1.0}, {"scale": 4.0}],
        sizes=[3, 1],
        tick=told.append,
    )
    assert found.top.value == pytest.approx(1.75)
    assert told == list(range(1, len(told) + 1))
