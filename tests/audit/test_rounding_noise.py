"""Simulated rounding: of the right size in every operation, nothing where nothing is rounded, and reproducible."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional

from ablate.audit.distance import FACTOR, judge
from ablate.audit.measured import measure
from ablate.audit.norms import distance
from ablate.audit.rounding_noise import RoundingNoise
from ablate.audit.roundoff import FLOAT32

U = FLOAT32


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def moved(step, u=U, seed=0):
    exact = step()
    with RoundingNoise(u, seed):
        noisy = step()
    return distance(noisy, exact)


ROUNDED = {
    "add": lambda x: x + x.flip(0),
    "mul in place": lambda x: x.clone().mul_(x.flip(0)),
    "out": lambda x: torch.mul(x, x.flip(0), out=torch.empty_like(x)),
    "exp": lambda x: x.exp(),
    "unknown": lambda x: torch.special.bessel_j0(x),
    "foreach": lambda x: torch._foreach_mul([x, x], 3.0)[1],
    "foreach in place": lambda x: (torch._foreach_sqrt_(made := [x.abs()]), made[0])[1],
    "complex": lambda x: torch.complex(x, x) + torch.complex(x, x.flip(0)),
}


@pytest.mark.parametrize("case", ROUNDED)
def test_every_element_moves_by_a_few_roundoffs(case):
    x = random(2000)
    exact = ROUNDED[case](x)
    with RoundingNoise(U, 0):
        noisy = ROUNDED[case](x)
    relative = ((noisy - exact).abs() / exact.abs())[exact != 0]
    # 2 u at most for each of two operations (sqrt(5) u if complex); of uniform noise all but a share of 1e-3
    # exceeds u / 1000
    assert float(relative.max()) <= 4.01 * U
    assert float((relative > 0).double().mean()) > 0.99
    assert float(relative.median()) > U / 10


@pytest.mark.parametrize(
    "step",
    {
        "views": lambda x: x.view(40, 50).t()[3:].reshape(-1),
        "copies": lambda x: torch.cat([x.clone(), torch.stack([x, x])[1]])[torch.arange(9)],
        "fills": lambda x: torch.zeros_like(x).fill_(0.3),
        "comparisons": lambda x: (x > 0.5).double(),
        "relu and clamp": lambda x: x.relu().clamp(0.1, 0.7).neg(),
        "zeros": lambda x: x * 0,
        "a step count": lambda x: torch.zeros((), dtype=torch.float64).add_(1).add_(1),
        "a masked score": lambda x: x.masked_fill(x > 0, -math.inf) + torch.full_like(x, -math.inf),
        "drawn": lambda x: torch.rand(5, dtype=torch.float64, generator=torch.Generator().manual_seed(3)),
    }.values(),
)
def test_what_is_exact_in_every_precision_does_not_move(step):
    x = torch.where(random(2000).abs() < 0.01, 0.0, random(2000))
    x = torch.where((x - 0.5).abs() < 0.01, 0.0, x)
    assert moved(lambda: step(x)) == 0


SUMS = {
    "sum": (lambda x: x.sum(), 1),
    "mean": (lambda x: x.mean(), 1 / 4000),
    "mm": (lambda x: x[None] @ torch.ones(4000, 1, dtype=torch.float64), 1),
    "dot": (lambda x: torch.dot(x, torch.ones_like(x)), 1),
    "index_add": (
        lambda x: torch.zeros(2, dtype=torch.float64).index_add(0, torch.zeros(4000, dtype=torch.long), x),
        1,
    ),
    "cumsum": (lambda x: x.cumsum(0)[-1], 1),
}


@pytest.mark.parametrize("case", SUMS)
def test_a_sum_that_cancels_keeps_its_noise(case):
    half = random(2000)
    x = torch.cat([half, -half])
    step, weight = SUMS[case]
    sizes = [moved(lambda: step(x), seed=seed) for seed in range(200)]
    spread = math.sqrt(sum(size**2 for size in sizes) / 200)
    # uniform in plus or minus u sqrt(n / 2) ||x||: standard deviation 1 / sqrt(3) of that; index_add counts n + 1.
    # 200 squares of uniform numbers average to within 6 * sqrt(4 / 5 / 200) = 38 % of their mean, so 19 % of its root
    expected = U * math.sqrt(2000) * float(x.norm()) * weight / math.sqrt(3)
    assert spread == pytest.approx(expected, rel=0.2)


def test_same_seed_same_noise_and_the_global_generator_does_not_move():
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 2)).double()
    x = random(16, 8)

    def gradient(seed):
        model.zero_grad()
        torch.manual_seed(5)
        with RoundingNoise(U, seed):
            model(x).square().sum().backward()
        return model[0].weight.grad.clone(), torch.get_rng_state()

    (first, after), (again, _), (other, _) = gradient(0), gradient(0), gradient(2)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    torch.manual_seed(5)
    model(x)
    assert torch.equal(torch.get_rng_state(), after)


def test_noise_grows_with_the_roundoff():
    x, w = random(20, 30), random(30, 5)
    one, other = moved(lambda: x @ w, 2.0**-24), moved(lambda: x @ w, 2.0**-30)
    assert one / other == pytest.approx(64, rel=1e-6)


def test_errors_that_repeat_add_up():
    def chain():
        h = torch.full((50,), 0.25, dtype=torch.float64)
        total = torch.zeros(50, dtype=torch.float64)
        for _ in range(400):
            total = total + h * 0.5 - 0.125 * torch.ones_like(h)
        return total

    fresh = max(moved(chain, seed=seed) for seed in (0, 2, 4))
    repeated = max(moved(chain, seed=seed) for seed in (1, 3, 5))
    # sqrt(400) = 20 times, less the spread of a maximum of three
    assert repeated > 4 * fresh


def test_a_number_near_a_kink_falls_on_both_sides():
    x = torch.tensor([1e-8, -1e-8, 1.0, 0.0], dtype=torch.float64, requires_grad=True)
    slopes = []
    for seed in range(12):
        with RoundingNoise(U, seed):
            (slope,) = torch.autograd.grad(x.relu().sum(), x)
        slopes.append(slope)
    found = torch.stack(slopes).round()
    assert found[:, :2].unique().tolist() == [0, 1]
    assert found[:, 2:].unique(dim=0).tolist() == [[1, 0]]


def test_an_input_is_not_moved_where_the_result_is_written_elsewhere():
    x = torch.tensor([1e-8, -1e-8, 1.0], dtype=torch.float64)
    before = x.clone()
    for seed in range(4):
        with RoundingNoise(U, seed):
            torch.gt(x, 0, out=torch.empty(3, dtype=torch.bool))
            x.relu()
    assert torch.equal(x, before)


def test_ties_of_a_pooling_stay_and_near_ties_turn():
    x = torch.tensor([[[1.0, 1 + 1e-8, 3.0, 3.0]]], dtype=torch.float64, requires_grad=True)
    found = []
    for seed in range(12):
        with RoundingNoise(U, seed):
            (slope,) = torch.autograd.grad(functional.max_pool1d(x, 2).sum(), x)
        found.append(slope[0, 0].round().tolist())
    assert {tuple(one[:2]) for one in found} == {(0, 1), (1, 0)}
    assert {tuple(one[2:]) for one in found} == {(1, 0)}


@pytest.mark.parametrize("u", [2.0**-53, 0.5])
def test_a_roundoff_that_float64_cannot_simulate(u):
    with pytest.raises(ValueError, match=r"cannot be simulated in float64: from 2\*\*-40 to 2\*\*-2 can$"):
        RoundingNoise(u, 0)


def test_a_bias_in_front_of_batch_normalisation_is_rounding_and_a_missing_term_is_not():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 4))
    x, y = random(6, 3, 8, 8), torch.arange(6) % 4

    def gradients(dtype, inside=None):
        model.to(dtype).zero_grad()
        if inside is None:
            functional.cross_entropy(model(x.to(dtype)), y).backward()
        else:
            with inside:
                functional.cross_entropy(model(x.to(dtype)), y).backward()
        return {name: p.grad.clone() for name, p in model.named_parameters()}

    arm, exact = gradients(torch.float32), gradients(torch.float64)
    samples = [gradients(torch.float64, RoundingNoise(U, seed)) for seed in range(4)]
    for name in exact:

        def verdict(value, name=name):
            measured = measure("gradient", name, value, exact[name])
            simulate = lambda _: [one[name] for one in samples]  # noqa: E731
            return judge(measured, roundoff=U, reduction=216, simulate=simulate).verdict

        assert verdict(arm[name]) == "rounding"
        assert verdict(arm[name] + 1e-4 * FACTOR) == "bug"


def test_attention_stays_unfused_after_an_operation_that_is_taken_apart():
    """A fused operation enters the mode again; that must not end the restriction of the mode around it."""
    x = torch.randn(2, 3, 4, 8, dtype=torch.float64)
    enabled = torch.backends.cuda.flash_sdp_enabled
    before = enabled()
    with RoundingNoise(2.0**-24, 0):
        assert not enabled()
        torch.nn.functional.layer_norm(x, (8,))
        assert not enabled()
    assert enabled() == before
