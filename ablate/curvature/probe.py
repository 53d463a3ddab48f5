"""One look at the curvature of a loss: spectral edges, density, trace, index, and what kind of point this is."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ablate.curvature import dense
from ablate.curvature.critical import classify, decrement
from ablate.curvature.density import Density, exact_density, join, locked, quadrature, settled
from ablate.curvature.edges import Edge, Edges, grow
from ablate.curvature.found import Along, Curvature, Index, Method, Plan
from ablate.curvature.hessian import Hessian
from ablate.curvature.lanczos import Array, Krylov, Mask, Ritz
from ablate.curvature.objective import Loss, Objective, objective
from ablate.curvature.trace import Trace, deflated
from ablate.curvature.verified import verify

WARM_RANDOM, WARM_FAR = 0.8, 0.1
"""Share of a warm start's square that is random, and how much farther out, relative to an end, a new eigenvalue is then
unlikely to have gone unseen. That none is farther out by the tolerance takes as many products as a cold start: it rests
on the random part alone."""

NOISE = 0.1
"""Standard deviation of what is added to a random start's signs."""


def probe(
    model: nn.Module,
    loss: Loss,
    batches: Sequence[Any],
    *,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str | None = None,
    sizes: Sequence[int] | None = None,
    update: Tensor | None = None,
    warm: Curvature | Sequence[Tensor] | None = None,
    tick: Callable[[int], None] | None = None,
    only: Collection[str] | None = None,
    **plan: Any,
) -> Curvature:
    """Look at the curvature of the mean loss over ``batches`` at the model's parameters; the model is not touched.

    Args:
        model: in the mode it is to be looked at in.
        loss: mean loss of a batch, from model and batch.
        batches: the probe set, weighted by sample count.
        dtype: precision of the products; everything else is float64.
        device: where to compute; None for where the model is.
        sizes: samples in each batch; None for the first dimension of its first tensor.
        update: (n,) the last update of the parameters, to have the curvature along it.
        warm: what was found a little earlier in training, or its extreme vectors (n,): they start the space, which then
            converges sooner, but may miss a new eigenvalue that is up to ``WARM_FAR`` farther out. Such a start is not
            random, so it needs ``probes=0``.
        tick: told the number of products so far.
        only: names of the parameters to vary, one player's for instance; None for all.
        plan: fields of ``Plan``.

    Raises:
        CurvatureError: a loss or product that is not finite, an operation without a second derivative, no parameter;
            a plan that cannot be.
    """
    asked = replace(Plan(), **plan)
    target = objective(model, loss, batches, dtype, device, asked.seed, sizes, only)
    return look(Hessian(target), asked, update, warm, tick)


def look(
    hessian: Hessian,
    plan: Plan,
    update: Tensor | None = None,
    warm: Curvature | Sequence[Tensor] | None = None,
    tick: Callable[[int], None] | None = None,
) -> Curvature:
    """Probe a Hessian that is there already; see ``probe``.

    Raises:
        ValueError: a warm start that is to feed a density.
    """
    if warm is not None and plan.probes:
        raise ValueError("a warm start is not random, so it cannot feed a density: probes=0")
    n, target = hessian.dimension, hessian.objective
    exact = n <= plan.exact_below
    draws = torch.Generator(target.device).manual_seed(plan.seed)
    krylov = None
    if exact:
        kink = verify(hessian, draws)
        edges = _exact(hessian, plan)
        density: Density | None = exact_density(edges.ritz.values)
        in_basis = hessian.gradient.to(torch.float64)
    else:
        start = _start(n, draws, target, warm)
        start /= start.norm()
        image = hessian @ start
        kink = verify(hessian, draws, (start, image) if warm is None else None)  # known vectors are no random direction
        krylov = Krylov(hessian.__matmul__, start, image=image)
        enough = partial(settled, dimension=n, starts=plan.probes) if plan.probes else None
        most = min(plan.most_steps, n)
        sure = (1.0, None) if warm is None else (WARM_RANDOM, WARM_FAR)
        edges = grow(krylov, plan.tolerance, most, plan.top, plan.bottom, tick, enough, *sure)
        density = _density(hessian, plan, edges, krylov, draws) if plan.probes else None
        in_basis = krylov.inside(hessian.gradient.to(torch.float64))
    gradient, values = hessian.gradient.to(torch.float64), edges.ritz.values
    floor = plan.floor * float(np.abs(values).max())
    certain: Mask = np.asarray(values + edges.rounding < -floor)
    squares: Array = (in_basis.cpu().numpy() @ edges.ritz.inner) ** 2
    newton = decrement(squares, values, float(gradient @ gradient), floor)
    bottom = edges.bottom[0]
    resolved = bottom.converged and bottom.value - bottom.estimate > -floor
    kind, evidence = classify(newton, hessian.loss, plan.critical, bool(certain.any()), resolved)
    evidence = "; ".join(filter(None, [evidence, kink]))
    how: Method = "dense" if exact else "quadrature" if density else "none"
    index = Index(floor, int(certain.sum()), density.share_below(-floor) if density else None, how)
    along = _along(hessian, gradient, squares, certain, update)
    trace = _trace(krylov, plan, density, draws)
    dtype = str(target.dtype).removeprefix("torch.")
    asked = (hessian.products, dtype, plan.seed, warm is not None)
    return Curvature(n, hessian.loss, edges, density, trace, index, along, newton, kind, evidence, *asked)


def _start(n: int, draws: torch.Generator, target: Objective, warm: Curvature | Sequence[Tensor] | None) -> Tensor:
    random = _random(n, draws)
    if warm is None:
        return random
    found = [edge.vector for edge in warm.edges.top + warm.edges.bottom] if isinstance(warm, Curvature) else list(warm)
    known: Tensor = torch.stack(found).sum(dim=0).to(target.device)
    start: Tensor = math.sqrt(1 - WARM_RANDOM) * known / known.norm()
    start += math.sqrt(WARM_RANDOM) * random / random.norm()
    return start


def _random(n: int, draws: torch.Generator) -> Tensor:
    """Return signs and a little noise: signs know each parameter's own share exactly, so a density varies less.

    Of signs alone an eigenvector on two parameters can be missed, (1, -1) by equal signs.
    """
    drawn: Tensor = torch.randn(2, n, dtype=torch.float64, device=draws.device, generator=draws)
    return torch.sign(drawn[0]) + NOISE * drawn[1]


def _exact(hessian: Hessian, plan: Plan) -> Edges:
    values, vectors, bound = dense.spectrum(hessian.__matmul__, hessian.dimension, hessian.objective.device)
    rows = torch.from_numpy(vectors.T.copy()).to(hessian.objective.device)
    edge = [Edge(float(value), bound, bound, True, row) for value, row in zip(values, rows, strict=True)]
    ritz = Ritz(values, np.zeros_like(values), np.full_like(values, np.nan), vectors)
    return Edges(tuple(edge[::-1][: plan.top]), tuple(edge[: plan.bottom]), ritz, bound)


def _density(hessian: Hessian, plan: Plan, edges: Edges, krylov: Krylov, draws: torch.Generator) -> Density:
    n, ritz = hessian.dimension, edges.ritz
    known = locked(ritz, edges.rounding, plan.tolerance, n)
    samples = [] if known.all() else [quadrature(ritz, known)]
    against = krylov.vectors(ritz.inner[:, known]) if plan.probes > 1 else None
    for _ in range(plan.probes - 1):
        other = Krylov(hessian.__matmul__, _random(n, draws), against)
        while len(other) < len(ritz.values) and not other.exhausted:
            other.extend()
        found = other.ritz()
        samples.append(quadrature(found, np.zeros(len(found.values), dtype=bool)))
    return join(ritz.values[known], samples, n)


def _trace(krylov: Krylov | None, plan: Plan, density: Density | None, draws: torch.Generator) -> Trace | None:
    if plan.trace_products and krylov is not None:
        return deflated(krylov, plan.trace_products, draws)
    return Trace(*density.trace(), 0) if density else None


def _along(hessian: Hessian, gradient: Tensor, squares: Array, certain: Mask, update: Tensor | None) -> Along:
    square = float(gradient @ gradient)
    whole = square or 1.0
    return Along(
        norm=square**0.5,
        negative=float(squares[certain].sum()) / whole,
        captured=min(float(squares.sum()) / whole, 1.0),
        curvature=_rayleigh(hessian, gradient),
        update=_rayleigh(hessian, update) if update is not None else None,
    )


def _rayleigh(hessian: Hessian, direction: Tensor) -> float | None:
    direction = direction.to(device=hessian.gradient.device, dtype=torch.float64)
    square = float(direction @ direction)
    return float(direction @ (hessian @ direction).to(torch.float64)) / square if square else None
