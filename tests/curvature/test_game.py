"""The game Jacobian of several players: closed forms, the dense matrix by torch.func, and a small GAN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse.linalg import LinearOperator, eigs
from torch import Tensor, nn

from ablate.curvature import CurvatureError, Game, Side, game, game_rows, probe
from ablate.record.columns import PROBE_COLUMNS

NOTHING = [torch.zeros(1)]
EPS = float(np.finfo(np.float64).eps)


class Two(nn.Module):
    """Two players with n numbers each."""

    def __init__(self, n: int, seed: int = 0) -> None:
        super().__init__()
        draws = torch.Generator().manual_seed(seed)
        self.x = nn.Parameter(torch.randn(n, dtype=torch.float64, generator=draws))
        self.y = nn.Parameter(torch.randn(n, dtype=torch.float64, generator=draws))


def against(f: Callable[[Any], Tensor]) -> list[Side]:
    """x lowers f, y raises it."""
    return [Side("x", ["x"], lambda m, _: f(m)), Side("y", ["y"], lambda m, _: -f(m))]


@pytest.mark.parametrize("exact_below", [0, 200])
def test_a_bilinear_game_turns_and_does_not_leave(exact_below: int) -> None:
    """f = x y: the field is (y, -x), its Jacobian [[0, 1], [-1, 0]] with eigenvalues i and -i."""
    found = game(Two(1), against(lambda m: (m.x * m.y).sum()), NOTHING, exact_below=exact_below)
    (root,) = found.roots
    assert (root.real, root.imaginary) == pytest.approx((0, 1), abs=root.residual)
    assert root.residual < 1e-14
    assert root.converged
    assert set(root.ends) == {"largest real", "smallest real", "largest imaginary"}
    assert found.losses["x"] == -found.losses["y"]


def quadratic(n: int) -> tuple[Two, list[Side], np.ndarray[Any, Any]]:
    """x' A x / 2 + x' B y, and y' C y / 2 - x' D y: the Jacobian is [[A, B], [-D', C]]."""
    draws = torch.Generator().manual_seed(7)
    a, b, c, d = torch.randn(4, n, n, dtype=torch.float64, generator=draws) / n**0.5
    a, c = a + a.T, c + c.T
    sides = [
        Side("x", ["x"], lambda m, _: m.x @ a @ m.x / 2 + m.x @ b @ m.y),
        Side("y", ["y"], lambda m, _: m.y @ c @ m.y / 2 - m.x @ d @ m.y),
    ]
    return Two(n), sides, np.block([[a.numpy(), b.numpy()], [-d.T.numpy(), c.numpy()]])


def sensitivity(matrix: np.ndarray[Any, Any]) -> float:
    """How much farther than its residual a root may be from the nearest eigenvalue (Bauer and Fike 1960)."""
    return float(np.linalg.cond(np.linalg.eig(matrix)[1]))


def of_rounding(found: Game, matrix: np.ndarray[Any, Any]) -> float:
    """Return how far two solvers' eigenvalues are from each other, relative to the largest.

    Each has the backward error that a root's residual states, and a root moves by no more than that times the
    matrix's sensitivity; what is compared with makes the same error, and the matrix's own entries are rounded.
    """
    return 3 * found.roots[0].residual * sensitivity(matrix) / float(np.abs(np.linalg.eigvals(matrix)).max())


def is_right(found: Game, true: np.ndarray[Any, Any], tolerance: float) -> None:
    """The outermost roots are the true ones."""
    scale = np.abs(true).max()
    reals, imaginaries = [r.real for r in found.roots], [r.imaginary for r in found.roots]
    assert max(reals) == pytest.approx(true.real.max(), abs=tolerance * scale)
    assert min(reals) == pytest.approx(true.real.min(), abs=tolerance * scale)
    assert max(imaginaries) == pytest.approx(true.imag.max(), abs=tolerance * scale)
    for root in found.roots:
        assert root.converged
        assert np.abs(true - complex(root.real, root.imaginary)).min() <= tolerance * scale


def test_a_quadratic_game_against_its_matrix_whole_and_by_arnoldi() -> None:
    model, sides, matrix = quadratic(60)
    true = np.linalg.eigvals(matrix)
    whole = game(model, sides, NOTHING)
    is_right(whole, true, of_rounding(whole, matrix))
    sparse = game(model, sides, NOTHING, exact_below=0, tolerance=1e-6)
    assert (sparse.method, sparse.dimension) == ("arnoldi", 120)
    assert sparse.products <= 121
    is_right(sparse, true, 1e-6 * sensitivity(matrix))


def bilinear(n: int) -> tuple[Two, list[Side], np.ndarray[Any, Any]]:
    """x' B y: every eigenvalue of the Jacobian [[0, B], [-B', 0]] has the real part 0."""
    b = (torch.randn(n, n, generator=torch.Generator().manual_seed(8)) / n**0.5).double()  # the same in float32
    zero = np.zeros((n, n))
    return Two(n), against(lambda m: m.x @ b.to(m.x) @ m.y), np.block([[zero, b.numpy()], [-b.T.numpy(), zero]])


def test_where_all_real_parts_are_one_the_space_still_converges() -> None:
    model, sides, matrix = bilinear(200)
    found = game(model, sides, NOTHING)
    assert found.method == "arnoldi"
    is_right(found, np.linalg.eigvals(matrix), 1e-3)
    assert found.products < 100


@pytest.mark.parametrize("make", [bilinear, quadratic])
def test_one_space_takes_fewer_products_than_a_restarted_one_for_each_end(make: Callable[[int], Any]) -> None:
    model, sides, matrix = make(120)
    calls = 0

    def product(vector: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        nonlocal calls
        calls += 1
        return matrix @ vector

    operator = LinearOperator(matrix.shape, product, dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(len(matrix))
    for end in ("LR", "SR", "LI"):  # two: a conjugate pair
        eigs(operator, k=2, which=end, tol=1e-3, v0=start, return_eigenvectors=False)
    assert game(model, sides, NOTHING).products < calls


def test_in_float32_the_residual_says_so() -> None:
    """The Jacobian is normal, so an eigenvalue lies within the residual; the space of all dimensions has no other."""
    model, sides, matrix = bilinear(5)
    found = game(model, sides, NOTHING, exact_below=0, dtype=torch.float32)
    for root in found.roots:
        assert np.abs(np.linalg.eigvals(matrix) - complex(root.real, root.imaginary)).min() <= root.residual


def test_several_roots_at_each_end() -> None:
    model, sides, matrix = quadratic(60)
    true = np.linalg.eigvals(matrix)
    found = game(model, sides, NOTHING, count=3)
    upper = true[true.imag >= 0]
    assert [r.real for r in found.roots if "largest real" in r.ends] == pytest.approx(sorted(upper.real)[::-1][:3])
    turning = sorted((r.imaginary for r in found.roots if "largest imaginary" in r.ends), reverse=True)
    assert turning == pytest.approx(sorted(upper.imag)[::-1][:3])


def test_what_one_space_cannot_tell_has_not_converged() -> None:
    model, sides, matrix = quadratic(60)
    true = np.linalg.eigvals(matrix)
    found = game(model, sides, NOTHING, exact_below=0, most_steps=10, tolerance=1e-9)
    assert not any(root.converged for root in found.roots)
    assert max(root.residual for root in found.roots) > 1e-3 * np.abs(true).max()


class Gan(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.generator = nn.Sequential(nn.Linear(4, 12), nn.Tanh(), nn.Linear(12, 2))
        self.critic = nn.Sequential(nn.Linear(2, 12), nn.Tanh(), nn.Linear(12, 1))


def gan(detached: bool = False) -> tuple[Gan, list[Side], list[tuple[Tensor, Tensor]]]:
    """The non-saturating game of Goodfellow et al. 2014."""
    model = Gan()
    draws = torch.Generator().manual_seed(5)
    real, noise = torch.randn(32, 2, generator=draws) + 2, torch.randn(32, 4, generator=draws)
    soft = nn.functional.softplus

    def critic(m: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        fake = m.generator(batch[1])
        return soft(-m.critic(batch[0])).mean() + soft(m.critic(fake.detach() if detached else fake)).mean()

    def generator(m: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        return soft(-m.critic(m.generator(batch[1]))).mean()

    names = [name for name, _ in model.named_parameters()]
    sides = [
        Side("generator", [n for n in names if n.startswith("generator")], generator),
        Side("critic", [n for n in names if n.startswith("critic")], critic),
    ]
    return model, sides, [(real, noise)]


def dense(model: nn.Module, sides: list[Side], batch: Any) -> np.ndarray[Any, Any]:
    """Return the whole Jacobian by torch.func, which shares no code with the probe."""
    named = {name: p.detach().double() for name, p in model.named_parameters()}
    sizes = [p.numel() for p in named.values()]
    batch = tuple(b.double() for b in batch)

    class Called(nn.Module):
        def __init__(self, values: dict[str, Tensor]) -> None:
            super().__init__()
            self.values = values

        def generator(self, z: Tensor) -> Tensor:
            part = {k.removeprefix("generator."): v for k, v in self.values.items() if k.startswith("generator")}
            return torch.func.functional_call(model.generator, part, (z,))

        def critic(self, x: Tensor) -> Tensor:
            part = {k.removeprefix("critic."): v for k, v in self.values.items() if k.startswith("critic")}
            return torch.func.functional_call(model.critic, part, (x,))

    def field(flat: Tensor) -> Tensor:
        def loss(vector: Tensor, side: Side) -> Tensor:
            pieces = torch.split(vector, sizes)
            return side.loss(
                Called({k: v.view(p.shape) for (k, p), v in zip(named.items(), pieces, strict=True)}), batch
            )

        slopes = {side.name: torch.func.grad(loss)(flat, side) for side in sides}
        owner = [next(s.name for s in sides if name in s.parameters) for name in named]
        cut = {name: torch.split(slope, sizes) for name, slope in slopes.items()}
        return torch.cat([cut[who][i] for i, who in enumerate(owner)])

    flat = torch.cat([p.reshape(-1) for p in named.values()])
    return torch.func.jacrev(field)(flat).numpy()


def test_a_small_gan_against_its_whole_jacobian() -> None:
    model, sides, batches = gan()
    matrix = dense(model, sides, batches[0])
    true = np.linalg.eigvals(matrix)
    whole = game(model, sides, batches)
    is_right(whole, true, of_rounding(whole, matrix))
    is_right(game(model, sides, batches, exact_below=0, tolerance=1e-4), true, 1e-4 * sensitivity(matrix))
    own = {side.name: probe(model, side.loss, batches, only=side.parameters) for side in sides}
    places = {"generator": slice(0, 86), "critic": slice(86, len(matrix))}
    for name, found in own.items():  # the player's block on the diagonal
        block = np.linalg.eigvalsh(matrix[places[name], places[name]])
        assert found.dimension == len(block)
        rounding = found.top.bound + len(block) * EPS * np.abs(block).max()  # ours, and the solver's on the block
        assert (found.bottom.value, found.top.value) == pytest.approx((block[0], block[-1]), abs=rounding)
        assert whole.norms[name] == pytest.approx(found.gradient.norm, rel=1e-12)
        assert whole.losses[name] == pytest.approx(found.loss, rel=1e-12)


def test_the_same_seed_gives_the_same_bytes_and_pieces_the_same_game() -> None:
    model, sides, ((real, noise),) = gan()
    whole = [(real, noise)]
    assert game(model, sides, whole, exact_below=0) == game(model, sides, whole, exact_below=0)
    assert game(model, sides, whole, exact_below=0) != game(model, sides, whole, exact_below=0, seed=1)
    once, cut = game(model, sides, whole), game(model, sides, [(real[:5], noise[:5]), (real[5:], noise[5:])])
    assert [r.real for r in cut.roots] == pytest.approx([r.real for r in once.roots], rel=1e-9)
    assert cut.losses == pytest.approx(once.losses, rel=1e-12)


def test_a_loss_that_hides_another_player_is_refused() -> None:
    model, sides, batches = gan(detached=True)
    with pytest.raises(CurvatureError, match=r"off what autograd gives\n .*fake.detach\(\)"):
        game(model, sides, batches)


def test_errors_name_the_parameter() -> None:
    model = Two(1)
    with pytest.raises(CurvatureError, match="parameter x belongs to more than one player"):
        game(model, [Side("a", ["x"], lambda m, _: m.x.sum()), Side("b", ["x"], lambda m, _: m.x.sum())], NOTHING)
    with pytest.raises(CurvatureError, match=r"no parameter 'z' that requires a gradient\n +allowed: x, y"):
        game(model, [Side("a", ["z"], lambda m, _: m.x.sum())], NOTHING)
    with pytest.raises(CurvatureError, match="no parameter 'xx'"):
        probe(model, lambda m, _: m.x.sum(), NOTHING, only=["xx"])
    with pytest.raises(CurvatureError, match=r"losses on the probe set are \[nan, nan\]"):
        game(model, against(lambda m: (m.x * m.y).sum() * float("nan")), NOTHING)
    with pytest.raises(CurvatureError, match="no player's loss depends on a parameter"):
        game(model, against(lambda m: torch.zeros(())), NOTHING)


def test_rows_say_where_each_root_is_outermost() -> None:
    model, sides, _ = quadratic(30)
    found = game(model, sides, NOTHING)
    made = game_rows(found)
    assert [(r["name"], r["position"]) for r in made] == [
        (name, i) for i in range(len(found.roots)) for name in ("game_real", "game_imag")
    ]
    for i, root in enumerate(found.roots):
        pair = made[2 * i : 2 * i + 2]
        assert [row["value"] for row in pair] == [root.real, root.imaginary]
        for row in pair:
            assert set(row) <= set(PROBE_COLUMNS)
            assert (row["player"], row["method"], row["bound"]) == ("game", "dense", root.residual)
            assert row["text"] == ", ".join(root.ends)
