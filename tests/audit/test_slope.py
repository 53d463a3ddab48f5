"""The slope check: no alarm on clean nets of many kinds, and a spoilt gradient is found and its parameter named."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ablate.audit.slope import MEANING, SlopeResult, slope_check
from ablate.audit.steps import Directions

Gradients = dict[str, Tensor | None]


def orthogonal(model: nn.Sequential, gain: float) -> nn.Sequential:
    for layer in model:
        if isinstance(layer, nn.Linear):
            nn.init.orthogonal_(layer.weight, gain)
    return model


def scaled(model: nn.Module, factor: float) -> nn.Module:
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(factor)
    return model


def image_net(*first: nn.Module) -> nn.Module:
    return nn.Sequential(
        *first, nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(128, 3)
    )


def dense(activation: type[nn.Module]) -> nn.Sequential:
    return nn.Sequential(nn.Linear(10, 30), activation(), nn.Linear(30, 30), activation(), nn.Linear(30, 3))


KINDS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "relu": (lambda: dense(nn.ReLU), (16, 10)),
    "tanh": (lambda: dense(nn.Tanh), (16, 10)),
    "hard sigmoid": (lambda: dense(nn.Hardsigmoid), (16, 10)),
    "max-pool": (lambda: image_net(nn.Conv2d(1, 8, 3, padding=1)), (8, 1, 12, 12)),
    "batch norm": (lambda: image_net(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8)), (8, 1, 12, 12)),
    "layer norm": (lambda: nn.Sequential(nn.Linear(10, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 3)), (16, 10)),
    "102 parameters": (
        lambda: orthogonal(
            nn.Sequential(*(m for _ in range(50) for m in (nn.Linear(16, 16), nn.ReLU())), nn.Linear(16, 3)), 1.41
        ),
        (16, 16),
    ),
    "parameters of 1e+3": (lambda: scaled(dense(nn.ReLU), 1e4), (16, 10)),
    "attention": (
        lambda: nn.Sequential(
            nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True), nn.Flatten(), nn.Linear(80, 3)
        ),
        (6, 5, 16),
    ),
}  # fmt: skip


class Case:
    """A float64 net with its loss, gradient and check."""

    def __init__(self, kind: str, seed: int, factor: float = 1.0, squared: bool = False) -> None:
        torch.manual_seed(seed)
        make, shape = KINDS[kind]
        self.model = make().double()
        self.x = torch.randn(shape, dtype=torch.float64)
        self.y = torch.randint(0, 3, (shape[0],))
        self.factor, self.squared, self.seed = factor, squared, seed
        self.buffers = {name: b.clone() for name, b in self.model.named_buffers()}
        self.forward().backward()
        self.gradients: Gradients = {name: p.grad for name, p in self.model.named_parameters()}

    def forward(self) -> Tensor:
        for name, b in self.model.named_buffers():
            b.data.copy_(self.buffers[name])
        out = self.model(self.x)
        error = (out - F.one_hot(self.y, 3)).square().mean() if self.squared else F.cross_entropy(out, self.y)
        return error * self.factor

    def check(self) -> SlopeResult:
        return slope_check(
            lambda: float(self.forward()), dict(self.model.named_parameters()), self.gradients, self.seed
        )


def numbers(result: SlopeResult) -> Iterator[float]:
    for line in (*result.directions, *result.bugs):
        yield from (line.error, line.scale, line.bound)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("factor", [1.0, 1e-8, 1e8])
def test_a_right_gradient_is_clean_after_12_forwards(kind: str, factor: float) -> None:
    result = Case(kind, seed=3, factor=factor, squared=factor != 1).check()
    assert result.verdict == "clean", result
    assert result.forwards <= 12
    assert len(result.directions) == 3
    assert not result.bugs
    assert result.detail.startswith("the gradient is the slope of the loss")
    for line in result.directions:
        assert line.error <= line.bound < 1e-2 * line.scale
    assert all(math.isfinite(number) for number in numbers(result))


@pytest.mark.slow
def test_no_alarm_on_200_random_nets() -> None:
    forwards = []
    for seed in range(200):
        kind = list(KINDS)[seed % len(KINDS)]
        result = Case(kind, seed, factor=(1.0, 1e-8, 1e8)[seed % 7 % 3], squared=bool(seed % 2)).check()
        assert result.verdict == "clean", (kind, seed, result)
        forwards.append(result.forwards)
    assert np.median(forwards) == 12


def spoil(how: str, gradient: Tensor) -> Tensor | None:
    if how == "scaled by 1.01":
        return gradient * 1.01
    if how == "sign":
        return -gradient
    if how == "absent":
        return None
    torch.manual_seed(0)
    return gradient + 0.1 * torch.randn_like(gradient) * gradient.norm() / math.sqrt(gradient.numel())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["scaled by 1.01", "sign", "absent", "a foreign term"])
def test_a_spoilt_gradient_is_found_and_its_parameter_named(kind: str, how: str) -> None:
    case = Case(kind, seed=5)
    # a bias before batch norm has no gradient to spoil, one of attention's keys neither
    names = [n for n, g in case.gradients.items() if g is not None and g.norm() > 1e-12]
    name = names[len(how) % len(names)]
    case.gradients[name] = spoil(how, case.gradients[name])
    result = case.check()
    assert (result.verdict, [bug.name for bug in result.bugs]) == ("bug", [name]), result
    assert result.detail == result.bugs[0].words
    assert result.bugs[0].error > result.bugs[0].bound
    assert MEANING in result.detail
    if how == "scaled by 1.01":
        assert f"{name}: the gradient gives 1.01 times the slope" in result.detail
    if how == "sign":
        assert f"{name}: the gradient gives -1 times the slope" in result.detail
    if how == "absent":
        assert f"{name}: the gradient is 0, and the loss moves with it" in result.detail


def test_the_smallest_share_hides_no_fault() -> None:
    case = Case("tanh", seed=1)
    with torch.no_grad():
        case.model[4].weight.mul_(300.0)
        case.model[0].weight.mul_(1e-3)
    case.model.zero_grad(set_to_none=False)
    case.forward().backward()
    name = "0.weight"
    sizes = {n: p.detach().norm() for n, p in case.model.named_parameters()}
    shares = {n: float(g.norm() * sizes[n]) for n, g in case.gradients.items() if g is not None}
    assert shares[name] < 0.002 * max(shares.values())
    case.gradients[name] = spoil("scaled by 1.01", case.gradients[name])
    assert [bug.name for bug in case.check().bugs] == [name]


def test_many_faults_are_named_up_to_a_limit() -> None:
    case = Case("102 parameters", seed=0)
    case.gradients = {name: -g for name, g in case.gradients.items() if g is not None}
    result = case.check()
    assert result.verdict == "bug"
    assert len(result.bugs) == 6
    assert "; also " in result.detail
    assert result.forwards <= 400


class ScaledBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, x: Tensor, w: Tensor) -> Tensor:
        ctx.save_for_backward(x, w)  # type: ignore[attr-defined]
        return x @ w

    @staticmethod
    def backward(ctx: object, grad: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        x, w = ctx.saved_tensors  # type: ignore[attr-defined]
        return grad @ w.T, 1.01 * (x.T @ grad)


def check_of(forward: Callable[[], Tensor], parameters: dict[str, Tensor], **more: int) -> SlopeResult:
    forward().backward()
    gradients = {name: p.grad for name, p in parameters.items()}
    return slope_check(lambda: float(forward()), parameters, gradients, 0, **more)


def leaf(*shape: int, seed: int = 0) -> Tensor:
    torch.manual_seed(seed)
    return torch.randn(shape, dtype=torch.float64).requires_grad_()


def test_a_wrong_backward_of_the_users_own_is_found() -> None:
    x, a, b = leaf(8, 4).detach(), leaf(4, 5, seed=1), leaf(5, 2, seed=2)
    result = check_of(lambda: (ScaledBackward.apply(x, a).tanh() @ b).square().mean(), {"a": a, "b": b})
    assert [bug.name for bug in result.bugs] == ["a"]
    assert "1.01 times" in result.detail


def test_targets_overwritten_through_numpy_are_found() -> None:
    frames = leaf(4, 8, 5).detach()
    w = leaf(5, 5, seed=1)
    buffer = np.zeros((8, 5))

    def forward() -> Tensor:
        total = torch.zeros((), dtype=torch.float64)
        target = torch.from_numpy(buffer)
        for t in range(3):
            buffer[:] = frames[t + 1].numpy()
            total = total + ((frames[t] @ w) * target).square().mean()
        return total

    result = check_of(forward, {"w": w})
    assert [bug.name for bug in result.bugs] == ["w"]


def test_a_parameter_that_enters_no_loss_is_clean() -> None:
    w, idle = leaf(5), leaf(3, seed=1)
    result = slope_check(
        lambda: float(w.square().sum()), {"w": w, "idle": idle}, {"w": 2 * w.detach(), "idle": None}, 0
    )
    assert result.verdict == "clean"


def test_a_stopped_gradient_is_no_slope_and_what_it_may_be_is_said() -> None:
    w, v = leaf(5), leaf(5, seed=1)
    result = check_of(lambda: (w * v.detach()).sum().square() + v.square().sum(), {"w": w, "v": v})
    assert [bug.name for bug in result.bugs] == ["v"]
    assert result.detail.endswith(
        "the gradient is not the slope of the loss: a wrong backward, or one replaced on purpose (gradient reversal, "
        "clipping in a backward or a hook), which looks the same and cannot be declared"
    )


def test_a_loss_that_does_not_move_says_so() -> None:
    w = leaf(5)
    result = slope_check(lambda: 1.5, {"w": w}, {"w": torch.ones(5)}, 0)
    assert result.detail == f"w: the loss does not move with it, and the gradient is not 0; {MEANING}"


def test_a_point_on_a_kink_is_no_bug_and_hides_no_bug_elsewhere() -> None:
    bias, w = torch.zeros(1, dtype=torch.float64, requires_grad=True), leaf(4, seed=1)

    def forward() -> Tensor:
        return bias.relu().sum() + w.square().sum()

    result = check_of(forward, {"bias": bias, "w": w})
    assert result.verdict == "kink"
    assert result.unseen == ("bias",)
    assert result.detail == (
        "a kink at or near the point (a ReLU at 0, a tie in a max-pool) hides the slope along bias; "
        "of every other parameter the gradient is the slope"
    )
    spoilt = {"bias": torch.zeros(1), "w": 2.02 * w.detach()}
    assert [bug.name for bug in slope_check(lambda: float(forward()), {"bias": bias, "w": w}, spoilt, 0).bugs] == ["w"]


def test_a_loss_lost_in_rounding_is_unjudged() -> None:
    w = leaf(4)
    result = slope_check(lambda: float(1e30 + w.sum()), {"w": w}, {"w": torch.ones(4)}, 0)
    assert result.verdict == "unjudged"
    assert result.detail == "rounding of the loss hides its slope along w"
    assert all(math.isfinite(number) for number in numbers(result))


def test_a_loss_that_is_not_repeatable_is_unjudged() -> None:
    w = leaf(4)
    generator = np.random.default_rng(0)
    result = slope_check(lambda: float(w.sum()) + generator.normal(), {"w": w}, {"w": torch.ones(4)}, 0)
    assert result.verdict == "unjudged"
    assert result.detail == "the loss is not finite, or not the same when evaluated twice"


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_numbers_that_are_not_finite_are_unjudged_and_stay_outside(value: float) -> None:
    w = leaf(4)
    results = [
        slope_check(lambda: value, {"w": w}, {"w": torch.ones(4)}, 0),
        slope_check(lambda: float(w.sum()), {"w": w}, {"w": torch.full((4,), value)}, 0),
        slope_check(lambda: 1.0, {"w": torch.full((4,), value, dtype=torch.float64)}, {}, 0),
    ]
    assert [result.verdict for result in results] == ["unjudged"] * 3
    assert [result.detail for result in results] == [
        "the loss is not finite, or not the same when evaluated twice",
        "the gradient of w is not finite",
        "parameter w is not finite",
    ]
    assert all(math.isfinite(number) for result in results for number in numbers(result))


def test_an_edge_beyond_which_the_loss_is_not_finite_is_met_with_smaller_steps() -> None:
    w = torch.tensor([1e-3], dtype=torch.float64, requires_grad=True)
    far = torch.tensor([1.0], dtype=torch.float64, requires_grad=True)

    def forward() -> Tensor:
        edge = math.inf if float(abs(far - 1)) > 1e-8 else 0.0
        return w.sum() + far.sum() + edge

    result = slope_check(lambda: float(forward()), {"w": w, "far": far}, {"w": torch.ones(1), "far": torch.ones(1)}, 0)
    assert result.verdict == "clean", result


def test_nothing_to_move_is_unjudged() -> None:
    assert slope_check(lambda: 1.0, {}, {}, 0).detail == "there is no parameter to move"
    assert slope_check(lambda: 1.0, {"w": torch.zeros(0, dtype=torch.float64)}, {}, 0).verdict == "unjudged"


def test_too_few_evaluations_are_unjudged() -> None:
    w = leaf(4)
    result = slope_check(lambda: float(w.sum()), {"w": w}, {"w": torch.ones(4)}, 0, most_forwards=5)
    assert (result.verdict, result.forwards) == ("unjudged", 5)
    assert result.detail == "5 evaluations of the loss did not tell"


def test_parameters_are_put_back_bit_for_bit_even_after_an_exception() -> None:
    w = leaf(1000)
    before = w.detach().clone()
    calls = 0

    def loss() -> float:
        nonlocal calls
        calls += 1
        if calls == 4:
            raise RuntimeError("planned")
        return float(w.sum())

    with pytest.raises(RuntimeError, match="planned"):
        slope_check(loss, {"w": w}, {"w": torch.ones(1000)}, 0)
    assert torch.equal(w.detach(), before)
    slope_check(lambda: float(w.square().sum()), {"w": w}, {"w": torch.ones(1000)}, 0)
    assert torch.equal(w.detach(), before)


def test_same_seed_same_result_and_no_global_generator_moves() -> None:
    torch_state, numpy_state = torch.get_rng_state(), np.random.get_state(legacy=False)["state"]["key"].copy()
    w = leaf(6)
    torch.set_rng_state(torch_state)
    a, again, b = (slope_check(lambda: float(w.exp().sum()), {"w": w}, {"w": w.detach().exp()}, s) for s in (1, 1, 2))
    assert a == again
    assert a.directions != b.directions
    assert torch.equal(torch.get_rng_state(), torch_state)
    assert np.array_equal(np.random.get_state(legacy=False)["state"]["key"], numpy_state)


def test_mistakes_of_the_caller_are_refused() -> None:
    w = leaf(4)
    with pytest.raises(ValueError, match=r"parameter w is torch\.float32: the slope check needs float64"):
        slope_check(lambda: 1.0, {"w": w.float()}, {}, 0)
    with pytest.raises(ValueError, match="gradient v belongs to no parameter"):
        slope_check(lambda: 1.0, {"w": w}, {"v": w.detach()}, 0)
    with pytest.raises(ValueError, match=r"gradient w has shape \(2,\), its parameter \(4,\)"):
        slope_check(lambda: 1.0, {"w": w}, {"w": torch.ones(2)}, 0)


def test_every_parameter_weighs_in_a_direction() -> None:
    """Shares 1, 0.1 and (a parameter of zeros) are made alike; 0.001 is raised tenfold only."""
    p = {n: torch.full((100,), s, dtype=torch.float64) for n, s in (("a", 1.0), ("b", 0.1), ("c", 1e-3), ("zero", 0.0))}
    g = {n: torch.ones(100, dtype=torch.float64) for n in p}
    directions = Directions(p, g, seed=0)
    mean = {n: math.sqrt(np.mean([directions.share(n, k) ** 2 for k in range(300)])) for n in p}
    # root mean square of 300 draws of sqrt(5): its standard error is 4 %
    for name, size in (("a", 1.0), ("b", 1.0), ("c", 1e-2), ("zero", 0.1)):
        assert mean[name] == pytest.approx(math.sqrt(5) * 10 * size, rel=0.2)
    assert directions.total(["a"]) == pytest.approx(math.sqrt(5) * 10)
