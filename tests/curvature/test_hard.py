"""Spectra and models that lead a careless method astray."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from ablate.curvature import Curvature, CurvatureError, Hessian, objective, probe
from ablate.curvature.edges import grow
from ablate.curvature.lanczos import Krylov
from tests.curvature.networks import autoencoder, conv_lstm, convnet, eigenvalues


def edges_of(eigenvalues: Tensor, seed: int = 0, most: int = 200) -> Any:
    """Look for the ends of a known spectrum, turned by a random orthogonal matrix."""
    n = len(eigenvalues)
    draws = torch.Generator().manual_seed(seed)
    q, _ = torch.linalg.qr(torch.randn(n, n, dtype=torch.float64, generator=draws))
    matrix = (q * eigenvalues) @ q.T
    start = torch.randn(n, dtype=torch.float64, generator=draws)
    return grow(Krylov(lambda v: matrix @ v, start), 1e-3, most)


@pytest.mark.parametrize("seed", range(3))
def test_a_nearly_degenerate_pair_at_the_top(seed: int) -> None:
    spectrum = torch.cat([torch.linspace(-1, 50, 300, dtype=torch.float64), torch.tensor([100.0, 100.0 + 1e-7])])
    edges = edges_of(spectrum, seed)
    assert edges.top[0].converged
    assert abs(edges.top[0].value - 100) <= min(edges.top[0].bound, 0.1) + 1e-7


@pytest.mark.parametrize("seed", range(10))
def test_a_tiny_negative_eigenvalue_is_never_given_the_wrong_sign(seed: int) -> None:
    spectrum = torch.cat([torch.tensor([-1e-6]), torch.logspace(-6, 3, 299, dtype=torch.float64)])
    for most in (20, 60, 300):
        assert edges_of(spectrum, seed, most).bottom[0].sign in (-1, 0)


@pytest.mark.parametrize("seed", range(10))
def test_a_tiny_positive_eigenvalue_is_never_given_the_wrong_sign(seed: int) -> None:
    spectrum = torch.cat([torch.tensor([1e-6]), torch.logspace(-5, 3, 299, dtype=torch.float64)])
    for most in (20, 60, 300):
        assert edges_of(spectrum, seed, most).bottom[0].sign in (1, 0)


def test_a_tiny_negative_eigenvalue_is_resolved_by_the_whole_matrix() -> None:
    found = quadratic(torch.cat([torch.tensor([-1e-6]), torch.linspace(1, 1e3, 99, dtype=torch.float64)]))
    assert found.bottom.sign == -1
    assert found.bottom.value == pytest.approx(-1e-6, abs=found.bottom.bound)


def quadratic(eigenvalues: Tensor, **plan: Any) -> Curvature:
    class At(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.x = nn.Parameter(torch.zeros(len(eigenvalues), dtype=torch.float64))

    return probe(At(), lambda m, _: (eigenvalues.double() * m.x**2).sum() / 2, [torch.zeros(1)], **plan)


def test_many_eigenvalues_of_zero_are_a_share_and_not_one_atom() -> None:
    """Half of 400 are 0: their one Ritz value carries the weight of all."""
    spectrum = torch.cat([torch.zeros(200), torch.linspace(-2, -1, 100), torch.linspace(1, 3, 100)])
    found = quadratic(spectrum, exact_below=0, probes=8)
    assert found.density is not None
    inside = np.abs(found.density.nodes) < 0.5
    weight = found.density.weights[inside].sum()
    error = np.sqrt(2 * 0.5 * 0.5 / (8 * 402))  # of a random vector's share in half of the space, eight times
    assert abs(weight - 0.5) < 4 * error
    assert found.index.share is not None
    assert abs(found.index.share.value - (spectrum < -found.index.floor).float().mean()) < 5 * error


def test_dead_units_make_a_singular_hessian() -> None:
    model, loss, batches = autoencoder()
    with torch.no_grad():
        model[0].bias.fill_(-100.0)  # every unit of the first layer is off
    found = probe(model, loss, batches, exact_below=0)
    true = eigenvalues((model, loss, batches))
    assert abs(found.top.value - true[-1]) <= found.top.bound
    assert abs(found.bottom.value - true[0]) <= found.bottom.bound + found.edges.rounding
    assert found.bottom.sign <= 0 or true[0] > 0


@pytest.mark.parametrize("scale", [1e4 ** (1 / 3), 1e4])
def test_large_weights_keep_the_bounds_true(scale: float) -> None:
    """By the cube root, the outputs of three layers have the scale of 1e4; by 1e4, that of 1e12."""
    model, loss, batches = convnet()
    with torch.no_grad():
        for p in model.parameters():
            p *= scale
    found = probe(model, loss, batches, exact_below=0, most_steps=300)
    true = eigenvalues((model, loss, batches))
    for edge, value in ((found.top, true[-1]), (found.bottom, true[0])):
        assert np.abs(true - edge.value).min() <= edge.bound
        if edge.converged:
            assert abs(edge.value - value) <= max(1e-3 * abs(value), edge.bound)


def test_a_loss_that_is_no_number_is_refused() -> None:
    model = nn.Linear(3, 1)
    with pytest.raises(CurvatureError, match="the loss on the probe set is nan"):
        probe(model, lambda m, x: m(x).sum() * float("nan"), [torch.ones(2, 3)])
    with pytest.raises(CurvatureError, match="the gradient on the probe set is not finite"):
        probe(model, lambda m, x: (m.weight.sum() * 0).sqrt() + m(x).mean(), [torch.ones(2, 3)])
    with pytest.raises(CurvatureError, match="no scalar"):
        probe(model, lambda m, x: m(x), [torch.ones(2, 3)])
    with pytest.raises(CurvatureError, match="depends on no parameter"):
        probe(model, lambda m, x: x.sum(), [torch.ones(2, 3)])
    with pytest.raises(CurvatureError, match="no batch"):
        probe(model, lambda m, x: m(x).sum(), [])
    with pytest.raises(CurvatureError, match="how many samples"):
        probe(model, lambda m, x: m.weight.sum(), [3])


def test_a_parameter_that_the_loss_does_not_reach_has_a_zero_row() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.unused = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(2))

    found = probe(Two(), lambda m, _: (m.used**4).sum(), [torch.zeros(1)])
    assert found.density is not None
    assert found.density.nodes == pytest.approx([0, 0, 12, 12, 12])


class Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x**2

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 2 * x * gradient


def fused(x: Tensor) -> Tensor:
    """Attention by the fused kernel itself, which no context can unfuse."""
    x = x.expand(2, 8).reshape(1, 1, 2, 8).contiguous()  # the kernel reads past strides of 0
    return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(x, x, x)[0]


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        (lambda m, x: fused(m(x)).sum(), "aten::_scaled_dot_product_flash_attention_for_cpu_backward"),
        (lambda m, x: Once.apply(m(x)).sum(), "100.0% away from the change of the gradient"),  # autograd says 0
    ],
    ids=["refused", "silent"],
)
def test_an_operation_without_a_second_derivative_is_told(loss: Any, words: str) -> None:
    torch.manual_seed(0)
    with pytest.raises(CurvatureError, match=words):
        probe(nn.Linear(3, 1), loss, [torch.ones(2, 3)])


def test_fused_attention_is_unfused() -> None:
    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.project = nn.Linear(4, 12)

        def forward(self, x: Tensor) -> Tensor:
            q, k, v = self.project(x).chunk(3, dim=-1)
            return nn.functional.scaled_dot_product_attention(q, k, v)

    case = (Attention(), lambda m, x: m(x).square().mean(), [torch.randn(2, 5, 4)])
    assert probe(*case).top.value == pytest.approx(eigenvalues(case)[-1], rel=1e-9)  # type: ignore[arg-type]


@pytest.fixture
def modes() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Tanh(), nn.Linear(8, 2))


@pytest.mark.parametrize("train", [True, False])
def test_the_model_and_all_generators_are_left_as_they_were(modes: nn.Module, train: bool) -> None:
    modes.train(train)
    before = {name: value.clone() for name, value in modes.state_dict().items()}
    torch_state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].copy()
    x = torch.randn(16, 6)
    torch.set_rng_state(torch_state)
    found = [probe(modes, lambda m, x: m(x).square().mean(), [x], exact_below=0) for _ in range(2)]
    assert found[0].top.value == found[1].top.value  # the same dropout mask, the same bytes
    assert torch.equal(found[0].bottom.vector, found[1].bottom.vector)
    assert torch.equal(torch.get_rng_state(), torch_state)
    assert (np.random.get_state()[1] == numpy_state).all()
    assert all(torch.equal(value, before[name]) for name, value in modes.state_dict().items())
    assert all(p.grad is None for p in modes.parameters())
    assert modes.training is train


def test_dropout_in_pieces_draws_the_same_mask_at_every_product(modes: nn.Module) -> None:
    x = torch.randn(16, 6)
    hessian = Hessian(objective(modes, lambda m, x: m(x).square().mean(), [x[:5], x[5:]]))
    a, b = torch.randn(2, hessian.dimension, dtype=torch.float64)
    assert float(a @ (hessian @ b)) == pytest.approx(float(b @ (hessian @ a)), rel=1e-9)
    kept = Hessian(objective(modes, lambda m, x: m(x).square().mean(), [x[:5], x[5:]]), keep=True)
    assert torch.allclose(kept @ a, hessian @ a, rtol=1e-12, atol=1e-12)


def test_nothing_is_kept_after_a_probe() -> None:
    """The copy of the model, its graph and the basis are gone at once, without the cycle collector, found or not."""
    model, loss, batches = conv_lstm()
    copies: list[weakref.ref[nn.Module]] = []

    def watched(twin: nn.Module, batch: Any) -> Tensor:
        copies.append(weakref.ref(twin))
        return loss(twin, batch)

    def tensor_bytes() -> int:
        alive = [t for t in gc.get_objects() if issubclass(type(t), Tensor)]  # no lazy class is asked
        return sum({t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in alive}.values())

    gc.collect()
    before = tensor_bytes()
    gc.disable()
    try:
        found = probe(model, watched, batches, exact_below=0, probes=2)
        assert {copy() for copy in copies} == {None}
        edges = 2 * found.dimension * 8
        assert tensor_bytes() <= before + edges  # the vectors of both ends, which are part of what was found
    finally:
        gc.enable()


@pytest.mark.parametrize("outlier", [1.0, 1e3, 1e8])
def test_a_basis_stays_orthogonal_beside_an_outlier(outlier: float) -> None:
    """Where nearly all of an image is cancelled a second pass is made; Ritz values ask for sqrt(eps) (Simon 1984)."""
    values = torch.cat([torch.linspace(-1, 1, 299, dtype=torch.float64), torch.tensor([outlier], dtype=torch.float64)])
    q, _ = torch.linalg.qr(torch.randn(300, 300, dtype=torch.float64, generator=torch.Generator().manual_seed(1)))
    krylov = Krylov(lambda v: q @ (values * (q.T @ v)), torch.ones(300, dtype=torch.float64))
    for _ in range(120):
        krylov.extend()
    gram = krylov.basis @ krylov.basis.T
    assert float((gram - torch.eye(120, dtype=torch.float64)).abs().max()) < 1e-12


class _Gate(nn.Module):
    """A ReLU at exactly 0 where the bias is 0 and an input is: as in a recurrent network's first window."""

    def __init__(self, square: Any) -> None:
        super().__init__()
        draws = torch.Generator().manual_seed(3)
        self.weight = nn.Parameter(torch.randn(4, 6, dtype=torch.float64, generator=draws))
        self.bias = nn.Parameter(torch.zeros(4, dtype=torch.float64))
        self.square = square

    def forward(self, x: Tensor) -> Tensor:
        hidden: Tensor = self.square(torch.relu(x @ self.weight.T + self.bias) - 1)
        return hidden.mean()


def _inputs() -> Tensor:
    x = torch.randn(12, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    x[:5] = 0
    return x


def test_a_kink_is_told_and_is_no_wrong_derivative() -> None:
    found = probe(_Gate(torch.square), lambda model, batch: model(batch), [_inputs()])
    assert "the loss has a kink at these weights" in found.evidence
    smooth = probe(_Gate(torch.square), lambda model, batch: model(batch), [_inputs()[5:]])
    assert "kink" not in smooth.evidence


def test_a_wrong_second_derivative_is_found_at_a_kink_too() -> None:
    with pytest.raises(CurvatureError, match="the second derivative that autograd gives is"):
        probe(_Gate(Once.apply), lambda model, batch: model(batch), [_inputs()])
