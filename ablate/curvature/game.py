"""Several players: each one's own block, and the eigenvalues of the game's Jacobian.

Every player i lowers its loss by its own parameters, so together they follow the field v = (d L_i / d theta_i). Its
Jacobian J has the players' Hessians as blocks on the diagonal; what is off the diagonal makes it unsymmetric, and its
eigenvalues complex: imaginary parts are turns around a point, a negative real part leaves it (Mescheder, Nowozin and
Geiger 2017; Balduzzi et al. 2018). Differentiating u . v once more gives J' u, and J' has the eigenvalues of J.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from ablate.curvature.arnoldi import Root, ends_of, grow, roots
from ablate.curvature.hessian import Hessian
from ablate.curvature.objective import CurvatureError, Loss, Objective, objective
from ablate.curvature.verified import verify_game
from ablate.errors import Problem


@dataclass(frozen=True)
class Side:
    """A player: the names of its parameters, and the loss it lowers with them."""

    name: str
    parameters: Sequence[str]
    loss: Loss


@dataclass(frozen=True)
class Game:
    """What was found of a game.

    Attributes:
        dimension: parameters of all players.
        roots: outermost eigenvalues of the Jacobian, by descending real part.
        method: ``dense``: all are known; ``arnoldi``: those that one Krylov space shows.
        losses: of each player.
        norms: of each player's gradient by its own parameters.
        products: with the Jacobian's transpose.
    """

    dimension: int
    roots: tuple[Root, ...]
    method: str
    losses: Mapping[str, float]
    norms: Mapping[str, float]
    products: int
    dtype: str
    seed: int


class Jacobian(Hessian):
    """The transpose of the game's Jacobian as an operator: a Hessian's machinery on several losses.

    ``gradient`` is the players' field (n,), ``loss`` the sum of their losses.

    Args:
        field: its parts give the players' losses (players,).
        owners: for each parameter, in order, whose it is.
    """

    def __init__(self, field: Objective, owners: Sequence[int]) -> None:
        self._owners = owners
        super().__init__(field)

    def _gradients(self, parts: range | list[int], graph: bool) -> tuple[float, list[Tensor]]:
        with sdpa_kernel(SDPBackend.MATH):  # a fused kernel has no second derivative
            losses = sum((self.objective.weights[i] * self.objective.parts[i]() for i in parts), torch.zeros(()))
            assert isinstance(losses, Tensor)
            if not torch.isfinite(losses).all():
                found = f"the players' losses on the probe set are {losses.tolist()}"
                raise CurvatureError(Problem("probe", found, "finite numbers"))
            if not losses.requires_grad:
                raise CurvatureError(Problem("probe", "no player's loss depends on a parameter that any player has"))
            gradients = [torch.empty(0)] * len(self._parameters)
            for player, loss in enumerate(losses):
                mine = [i for i, owner in enumerate(self._owners) if owner == player]
                own = torch.autograd.grad(
                    loss,
                    [self._parameters[i] for i in mine],
                    create_graph=graph,
                    retain_graph=True,
                    allow_unused=True,
                    materialize_grads=True,
                )
                for i, gradient in zip(mine, own, strict=True):
                    gradients[i] = gradient
        return float(losses.detach().sum()), gradients


def game(
    model: nn.Module,
    sides: Sequence[Side],
    batches: Sequence[Any],
    *,
    count: int = 1,
    tolerance: float = 1e-3,
    most_steps: int = 200,
    exact_below: int = 200,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str | None = None,
    sizes: Sequence[int] | None = None,
    seed: int = 0,
    tick: Callable[[int], None] | None = None,
) -> Game:
    """Look at the outermost eigenvalues of a game's Jacobian; the model is not touched.

    Args:
        model: of all players, in the mode it is to be looked at in.
        sides: the players; what no player has is held.
        batches: the probe set, weighted by sample count.
        count: eigenvalues at each end.
        tolerance: largest residual, relative to the largest eigenvalue.
        most_steps: most dimensions of the Krylov space.
        exact_below: parameters up to which the whole Jacobian is computed.
        dtype: precision of the products; everything else is float64.
        device: where to compute; None for where the model is.
        sizes: samples in each batch; None for the first dimension of its first tensor.
        seed: of all draws.
        tick: told the number of products so far.

    Raises:
        CurvatureError: as of ``probe``; a parameter that two players have, or that the model has not.
    """
    names = [name for side in sides for name in side.parameters]
    shared = sorted({name for name in names if names.count(name) > 1})
    if shared:
        found = f"parameter {shared[0]} belongs to more than one player"
        raise CurvatureError(Problem("probe: game", found, "each parameter with one player"))

    def losses(twin: nn.Module, batch: Any) -> Tensor:
        return torch.stack([side.loss(twin, batch).reshape(()) for side in sides])

    field = objective(model, losses, batches, dtype, device, seed, sizes, only=names)
    whose = {name: i for i, side in enumerate(sides) for name in side.parameters}
    jacobian = Jacobian(field, [whose[name] for name in field.parameters])
    draws = torch.Generator(field.device).manual_seed(seed)
    verify_game(jacobian, draws)
    n = jacobian.dimension
    if n <= exact_below:
        outermost = _exact(jacobian, count)
    else:
        start = torch.randn(n, dtype=torch.float64, device=field.device, generator=draws)
        outermost = grow(jacobian.__matmul__, start, tolerance, min(most_steps, n), count, tick)
    norms = {side.name: 0.0 for side in sides}
    for name, piece in zip(field.parameters, field.split(jacobian.gradient), strict=True):
        norms[sides[whose[name]].name] += float(piece.double().square().sum())
    with torch.no_grad():
        each = torch.stack([weight * part() for weight, part in zip(field.weights, field.parts, strict=True)]).sum(
            dim=0
        )
    values = {side.name: float(loss) for side, loss in zip(sides, each, strict=True)}
    roots_of = {name: square**0.5 for name, square in norms.items()}
    kind = str(field.dtype).removeprefix("torch.")
    method = "dense" if n <= exact_below else "arnoldi"
    return Game(n, outermost, method, values, roots_of, jacobian.products, kind, seed)


def _exact(jacobian: Jacobian, count: int) -> tuple[Root, ...]:
    """Return the outermost of all eigenvalues; their residual is the solver's backward error, n eps of the norm."""
    eye = torch.eye(jacobian.dimension, dtype=torch.float64, device=jacobian.objective.device)
    matrix = torch.stack([(jacobian @ e).to(torch.float64) for e in eye]).cpu().numpy()  # rows of J' e: J itself
    values = np.linalg.eigvals(matrix).astype(np.complex128)
    eps = float(torch.finfo(jacobian.objective.dtype).eps)
    error = len(values) * eps * float(np.linalg.norm(matrix, 2))
    return roots(values, np.full(len(values), error), np.ones(len(values), dtype=bool), ends_of(values, count, error))
