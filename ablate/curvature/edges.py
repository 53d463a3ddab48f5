"""The ends of the spectrum from one Krylov space, each with a bound and whether it converged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from ablate.curvature.lanczos import Array, Krylov, Mask, Ritz

FEWEST_STEPS = 8
"""Before these many steps the Ritz values say little of the gaps between eigenvalues."""

SETTLED = 3
"""Over so many steps an edge has to stand still too: a gap that is only estimated can be wrong."""

UNSEEN = 0.2
"""A start that has next to nothing of the outermost eigenvector first finds the one after it, or something between two
that lie close. That an eigenvalue lies farther out than what was found, by more than the tolerance, has a chance of
``UNSEEN`` at most (``unseen.py``): at most, since all that the moments allow is taken to be at one place."""

MISSED = 0.02
"""Largest residual over the gap of pairs behind the outermost, of which that cannot be said. A start that has a small
share of an eigenvector leaves it unseen while the residual of the next is as small a share of the gap."""

MORE = 1.25
"""A density of a large model never settles: its start leaves less open than any affordable number of nodes resolves."""


@dataclass(frozen=True)
class Edge:
    """One eigenvalue at an end of the spectrum, as a Ritz pair knows it.

    Attributes:
        value: the Ritz value; never beyond the true end of the spectrum by more than rounding.
        bound: an eigenvalue lies within this distance: residual norm and rounding (Parlett 1998, theorem 4.5.1).
        estimate: the likely error: the smaller of the residual and its square over the gap to the next Ritz value, and
            rounding. An estimate, since the gap is one.
        converged: whether the estimate is within the tolerance, the value stood still for the last steps, and one that
            is farther out, and went unseen, is unlikely.
        vector: (n,), of norm 1.
    """

    value: float
    bound: float
    estimate: float
    converged: bool
    vector: Tensor

    @property
    def sign(self) -> int:
        """Sign of the eigenvalue: 1 or -1; 0 if it cannot be resolved."""
        if self.value < 0:
            return -1 if -self.value > self.estimate else 0
        return 1 if self.converged and self.value > self.bound else 0


@dataclass(frozen=True)
class Edges:
    """Both ends: ``top`` by descending, ``bottom`` by ascending value, one each or more."""

    top: tuple[Edge, ...]
    bottom: tuple[Edge, ...]
    ritz: Ritz
    rounding: float

    @property
    def converged(self) -> bool:
        """Whether every pair did."""
        return all(edge.converged for edge in (*self.top, *self.bottom))


def grow(
    krylov: Krylov,
    tolerance: float,
    most_steps: int,
    top: int = 1,
    bottom: int = 1,
    tick: Callable[[int], None] | None = None,
    enough: Callable[[Ritz, Ritz], bool] | None = None,
    random: float = 1.0,
    far: float | None = None,
) -> Edges:
    """Extend a Krylov space until its outermost Ritz pairs have converged, or it has ``most_steps`` dimensions.

    Args:
        krylov: the space.
        tolerance: largest relative error of each eigenvalue asked for, as estimated.
        most_steps: most products.
        top: how many pairs at the upper end.
        bottom: how many at the lower end.
        tick: told the number of products after each.
        enough: whether what else is read off the space is good enough: asked with the pairs of now and of ``SETTLED``
            steps before; ``MORE`` times the steps of the ends are the most that it gets.
        random: share of the start's square that points anywhere alike.
        far: how much farther out, relative to an end, an eigenvalue that went unseen is unlikely; None: the tolerance.
    """
    history: list[Array] = []
    pairs: list[Ritz] = []
    far = tolerance if far is None else far
    first = 0
    while True:
        krylov.extend()
        if tick:
            tick(len(krylov))
        ritz = krylov.ritz()
        wanted = _wanted(len(krylov), top, bottom)
        history = [*history[-SETTLED:], ritz.values[wanted]]
        pairs = [*pairs[-SETTLED:], ritz]
        good = _good(krylov, ritz, wanted, tolerance, history, random, far)
        steps = len(krylov)
        if krylov.exhausted or steps >= most_steps:
            break
        if steps < max(FEWEST_STEPS, top + bottom + 1) or not good.all():
            continue
        first = first or steps
        if enough is None or enough(ritz, pairs[0]) or steps >= MORE * first:
            break
    vectors = krylov.vectors(ritz.inner[:, wanted])
    errors = _estimates(ritz, krylov.rounding)
    every = [
        Edge(
            float(ritz.values[i]),
            float(ritz.residuals[i] + krylov.rounding + _eps(ritz)),
            float(errors[i]),
            bool(ok),
            vector,
        )
        for i, ok, vector in zip(wanted, good, vectors, strict=True)
    ]
    low = min(bottom, len(krylov))
    return Edges(tuple(reversed(every[low:] or every)), tuple(every[:low]), ritz, krylov.rounding)


def _wanted(steps: int, top: int, bottom: int) -> list[int]:
    low = list(range(min(bottom, steps)))
    return low + [i for i in range(max(steps - top, 0), steps) if i not in low]


def _good(
    krylov: Krylov, ritz: Ritz, wanted: list[int], tolerance: float, history: list[Array], random: float, far: float
) -> Mask:
    values, residuals = ritz.values[wanted], ritz.residuals[wanted]
    allowed = tolerance * np.abs(values)
    exact = residuals <= krylov.rounding + _eps(ritz)
    near = _estimates(ritz, krylov.rounding)[wanted] <= allowed
    alike = [past for past in history if len(past) == len(values)]
    moved = max((np.abs(past - values) for past in alike), key=lambda d: float(d.max(initial=0)))
    still = (moved <= allowed) & (len(alike) > SETTLED)
    seen = residuals <= MISSED * np.maximum(_gaps(ritz)[wanted], allowed)
    for i, at in enumerate(wanted):
        if at in (0, len(ritz.values) - 1):
            beyond = float(values[i]) + (-1 if at == 0 else 1) * far * abs(float(values[i]))
            seen[i] = near[i] and still[i] and krylov.unseen(beyond, random) <= UNSEEN
    return np.asarray(exact | (near & seen & still))


def _estimates(ritz: Ritz, rounding: float) -> Array:
    """Return the likely error of each Ritz value: min(r, r^2 / gap) and rounding (Parlett 1998, section 11.7)."""
    gaps = _gaps(ritz)
    with np.errstate(divide="ignore", invalid="ignore"):
        quadratic = np.where(gaps > 0, ritz.residuals**2 / gaps, np.inf)
    return np.minimum(ritz.residuals, quadratic) + rounding + _eps(ritz)


def _gaps(ritz: Ritz) -> Array:
    """Return how far the next Ritz value is from each, at least."""
    gaps = np.full(len(ritz.values), np.inf)
    between = np.diff(ritz.values)
    gaps[:-1] = between
    gaps[1:] = np.minimum(gaps[1:], between)
    gaps -= ritz.residuals  # the neighbour may be that much nearer
    return gaps


def _eps(ritz: Ritz) -> float:
    """Rounding of the small eigenproblem: a few units in the last place of the largest Ritz value."""
    return float(4 * np.finfo(np.float64).eps * np.abs(ritz.values).max())
