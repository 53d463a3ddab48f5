"""Points whose Hessian is known by hand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from ablate.curvature import Curvature, probe, rows
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
    assert found.trace.value == pytest.approx(17, abs=4 * 16 * EPS * 9 + 4 * found.trace.standard_error)


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


@pytest.mark.parametrize("exact_below", [0, 200])
def test_the_saddles_of_a_deep_linear_network(exact_below: int) -> None:
    """Baldi and Hornik 1989: of a map with singular values s and one hidden unit, inputs white, each singular pair is
    a critical point; at the second one the Hessian's eigenvalues are 2 s2, 0, and s2 + s_i, s2 - s_i for the others.
    """
    s = np.array([3.0, 2.0, 1.0, 0.5])
    draws = torch.Generator().manual_seed(0)
    u, v, x = (torch.linalg.qr(torch.randn(4, 4, dtype=torch.float64, generator=draws))[0] for _ in range(3))
    y = u @ torch.diag(torch.from_numpy(s)) @ v.T @ x
    model = nn.Sequential(nn.Linear(4, 1, bias=False), nn.Linear(1, 4, bias=False)).double()
    with torch.no_grad():
        model[0].weight.copy_(s[1] ** 0.5 * v[:, 1:2].T)
        model[1].weight.copy_(s[1] ** 0.5 * u[:, 1:2])
    found = probe(model, lambda m, b: (m(b[0].T).T - b[1]).square().sum() / 2, [(x, y)], exact_below=exact_below)
    true = np.sort([2 * s[1], 0.0, *(s[1] + s[[0, 2, 3]]), *(s[1] - s[[0, 2, 3]])])
    assert found.loss == pytest.approx((s[[0, 2, 3]] ** 2).sum() / 2)
    assert found.kind == "near a saddle"
    assert (found.bottom.value, found.top.value) == pytest.approx((true[0], true[-1]), rel=1e-9)
    assert found.bottom.sign == -1
    assert found.index.at_least == 1  # s1 > s2 alone leads down
    if exact_below:
        assert found.density is not None
        assert found.density.nodes == pytest.approx(true, abs=found.top.bound + 8 * EPS * true[-1])


def test_the_same_seed_gives_the_same_rows_and_another_one_others() -> None:
    scales = torch.linspace(-1, 3, 300, dtype=torch.float64)
    made = [rows(look_at(lambda x: (scales * x**2).sum(), torch.ones(300), seed=seed)) for seed in (4, 4, 5)]
    assert made[0] == made[1]
    assert [r["value"] for r in made[0]] != [r["value"] for r in made[2]]


def test_signs_alone_would_miss_a_pair_of_opposite_parameters() -> None:
    """The only negative direction is (1, -1): of random signs, half would be orthogonal to it."""
    for seed in range(12):
        found = look_at(lambda x: (x**2).sum() - 3 * (x[0] - x[1]) ** 2, torch.zeros(300), seed=seed, exact_below=0)
        assert found.bottom.value == pytest.approx(2 - 12)
