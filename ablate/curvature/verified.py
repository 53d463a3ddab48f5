"""Whether products are those of the loss's Hessian: held against differences of gradients, which need no second graph.

Autograd can be silently wrong here. A custom backward that is marked as differentiable once gives zero second
derivatives, without an error, where the gradient that reaches it is constant; one that works on ``.data`` loses terms.
"""

from __future__ import annotations

import torch

from ablate.curvature.hessian import Hessian
from ablate.curvature.objective import CurvatureError
from ablate.errors import Problem

STEPS = (1e-5, 1e-7)
"""Step sizes, relative to the parameters' norm: two, since one may cross a kink, a ReLU's; the shorter one seldom."""

AGREES = 1e-3
"""Largest difference, relative to the product."""

SIGMAS = 4.0
"""A standard normal number is larger once in 16,000 times."""


def verify(hessian: Hessian, draws: torch.Generator) -> None:
    """Compare one product along a random direction with (g(x + h v) - g(x - h v)) / 2h; costs four gradients at most.

    The difference's own error is h^2 times a third derivative, and rounding, eps |g| / h with a factor of 100 for the
    sums in a gradient; what that leaves open is no disagreement. Only float64 resolves enough to ask at all.

    Raises:
        CurvatureError: they disagree at both step sizes.
    """
    if hessian.objective.dtype is not torch.float64:
        return
    direction = torch.randn(hessian.dimension, dtype=torch.float64, device=draws.device, generator=draws)
    direction /= direction.norm()
    product = hessian @ direction
    norm = sum(float(p.detach().square().sum()) for p in hessian.objective.parameters.values()) ** 0.5
    apart = []
    for step in STEPS:
        h = step * max(norm, 1.0)
        slope = (hessian.gradient_at(h * direction) - hessian.gradient_at(-h * direction)) / (2 * h)
        rounding = 100 * torch.finfo(torch.float64).eps * float(hessian.gradient.norm()) / h
        error, scale = float((slope - product).norm()), max(float(slope.norm()), float(product.norm()))
        if error <= AGREES * scale + rounding:
            return
        apart.append(error / scale)
    found = (
        f"the second derivative that autograd gives is {min(apart):.1%} away from the change of the gradient along a "
        "random direction"
    )
    advice = (
        "A custom autograd.Function whose backward is not itself differentiable (marked once_differentiable, or "
        "working on .data or detached tensors) is the usual cause: write its backward in differentiable operations."
    )
    raise CurvatureError(Problem("probe: second derivative", found, "", "", advice))


def verify_game(jacobian: Hessian, draws: torch.Generator) -> None:
    """Compare u' J w, by J' u and by a difference of the players' field along w; u and w are random.

    A difference e of the two fields is seen as u . e, a normal number of standard deviation |e|.

    Raises:
        CurvatureError: they disagree at both step sizes.
    """
    if jacobian.objective.dtype is not torch.float64:
        return
    n, device = jacobian.dimension, draws.device
    u, w = torch.randn(2, n, dtype=torch.float64, device=device, generator=draws)
    w /= w.norm()
    by_product = float(w @ (jacobian @ u))
    norm = sum(float(p.detach().square().sum()) for p in jacobian.objective.parameters.values()) ** 0.5
    apart = []
    for step in STEPS:
        h = step * max(norm, 1.0)
        slope = (jacobian.gradient_at(h * w) - jacobian.gradient_at(-h * w)) / (2 * h)
        rounding = 100 * torch.finfo(torch.float64).eps * float(jacobian.gradient.norm()) / h
        error, scale = abs(float(u @ slope) - by_product), max(float(slope.norm()), abs(by_product))
        if error <= SIGMAS * (AGREES * scale + rounding):
            return
        apart.append(error / scale)
    found = f"how the players' gradients change along a random direction is {min(apart):.1%} off what autograd gives"
    advice = (
        "A loss that detaches another player's output, as a discriminator's on fake.detach(), hides how that player "
        "moves it: write the loss without detach, each optimiser steps its own parameters anyway."
    )
    raise CurvatureError(Problem("probe: game", found, "", "", advice))
