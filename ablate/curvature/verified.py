"""Whether products are those of the loss's Hessian: held against differences of gradients, which need no second graph.

Autograd can be silently wrong here. A custom backward that is marked as differentiable once gives zero second
derivatives, without an error, where the gradient that reaches it is constant; one that works on ``.data`` loses terms.

Where the loss has a kink the gradient jumps, and its differences grow as the step shrinks: initial weights whose biases
are 0 put ReLUs exactly there. Autograd is then held against differences at weights beside them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from ablate.curvature.hessian import Hessian
from ablate.curvature.objective import CurvatureError
from ablate.errors import Problem

STEPS = (1e-5, 1e-7)
"""Step sizes, relative to the parameters' norm: two, since one may cross a kink, a ReLU's; the shorter one seldom."""

BESIDE = 1e-3
"""How far from a kink to look, relative to the parameters' norm: a step of 1e-7 there crosses 1 in 10,000 kinks."""

AGREES = 1e-3
"""Largest difference, relative to the product."""

SIGMAS = 4.0
"""A standard normal number is larger once in 16,000 times."""

KINK = "the loss has a kink at these weights, as where a ReLU is at exactly 0: gradient and curvature are of one side"


def verify(hessian: Hessian, draws: torch.Generator, known: tuple[Tensor, Tensor] | None = None) -> str:
    """Compare one product along a random direction with (g(x + h v) - g(x - h v)) / 2h; costs four gradients at most.

    The difference's own error is h^2 times a third derivative, and rounding, eps |g| / h with a factor of 100 for the
    sums in a gradient; what that leaves open is no disagreement. Only float64 resolves enough to ask at all.

    Args:
        hessian: what is held against differences.
        draws: where directions come from.
        known: a random direction (n,) of norm 1 and the product with it, where it is needed anyway; None makes one.

    Returns:
        That the loss has a kink at the parameters, if it has; to tell costs four gradients and a product more.

    Raises:
        CurvatureError: they disagree at both step sizes, and so they do beside a kink.
    """
    if hessian.objective.dtype is not torch.float64:
        return ""
    v, product = known or _along(hessian, _random(hessian, draws))
    apart, kink = _apart(hessian, v, product, _all)
    if kink:
        offset = _beside(hessian, draws)
        if not _apart(hessian, v, hessian.product_at(offset, v), _all, offset)[0]:
            return KINK
    if not apart:
        return ""
    found = f"the second derivative that autograd gives is {apart:.1%} away from the change of the gradient along a "
    advice = (
        "A custom autograd.Function whose backward is not itself differentiable (marked once_differentiable, or "
        "working on .data or detached tensors) is the usual cause: write its backward in differentiable operations."
    )
    raise CurvatureError(Problem("probe: second derivative", f"{found}random direction", "", "", advice))


def verify_game(jacobian: Hessian, draws: torch.Generator) -> None:
    """Compare u' J w, by J' u and by a difference of the players' field along w; u and w are random.

    A difference e of the two fields is seen as u . e, a normal number of standard deviation |e|. A kink is no error: it
    is one of a player's loss, whose own evidence tells it.

    Raises:
        CurvatureError: as ``verify``.
    """
    if jacobian.objective.dtype is not torch.float64:
        return
    u, w = _random(jacobian, draws), _random(jacobian, draws)
    w /= w.norm()

    def along_u(change: Tensor) -> Tensor:
        return u @ change

    apart, kink = _apart(jacobian, w, w @ (jacobian @ u), along_u, sigmas=SIGMAS)
    if kink:
        offset = _beside(jacobian, draws)
        if not _apart(jacobian, w, w @ jacobian.product_at(offset, u), along_u, offset, SIGMAS)[0]:
            return
    if not apart:
        return
    found = f"how the players' gradients change along a random direction is {apart:.1%} off what autograd gives"
    advice = (
        "A loss that detaches another player's output, as a discriminator's on fake.detach(), hides how that player "
        "moves it: write the loss without detach, each optimiser steps its own parameters anyway."
    )
    raise CurvatureError(Problem("probe: game", found, "", "", advice))


def _apart(
    operator: Hessian,
    direction: Tensor,
    product: Tensor,
    seen: Callable[[Tensor], Tensor],
    offset: Tensor | None = None,
    sigmas: float = 1.0,
) -> tuple[float, bool]:
    """Return how far a product is from differences of gradients, and whether these tell of a kink.

    Args:
        operator: gives gradients.
        direction: (n,) of norm 1, along which they are taken.
        product: with it, as far as it is seen.
        seen: what of a change of the gradient is compared: all of it, or its component along a vector.
        offset: (n,) where to look; None for the parameters.
        sigmas: factor on the difference allowed.

    Returns:
        The relative difference at the better step, 0 if it is allowed; and whether the two steps' differences are
        farther from each other than either's error: a jump of the gradient divided by steps 100 times apart.
    """
    at = torch.zeros_like(direction) if offset is None else offset
    apart, slopes, errors = [], [], []
    for step in STEPS:
        h = step * _scale(operator)
        slope = (operator.gradient_at(at + h * direction) - operator.gradient_at(at - h * direction)) / (2 * h)
        rounding = 100 * torch.finfo(torch.float64).eps * float(operator.gradient.norm()) / h
        error, scale = float((seen(slope) - product).norm()), max(float(slope.norm()), float(product.norm()))
        if error <= sigmas * (AGREES * scale + rounding):
            return 0.0, False
        apart.append(error / scale)
        slopes.append(seen(slope))
        errors.append(AGREES * scale + rounding)
    return min(apart), float((slopes[1] - slopes[0]).norm()) > sigmas * sum(errors)


def _all(change: Tensor) -> Tensor:
    return change


def _along(hessian: Hessian, direction: Tensor) -> tuple[Tensor, Tensor]:
    v = direction / direction.norm()
    return v, hessian @ v


def _random(operator: Hessian, draws: torch.Generator) -> Tensor:
    drawn: Tensor = torch.randn(operator.dimension, dtype=torch.float64, device=draws.device, generator=draws)
    return drawn


def _beside(operator: Hessian, draws: torch.Generator) -> Tensor:
    offset = _random(operator, draws)
    offset *= BESIDE * _scale(operator) / float(offset.norm())
    return offset


def _scale(operator: Hessian) -> float:
    squares = [float(p.detach().square().sum()) for p in operator.objective.parameters.values()]
    return max(math.sqrt(sum(squares)), 1.0)
