"""What a probe found, and how it was asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ablate.curvature.critical import Decrement, Kind
from ablate.curvature.density import Density, Share
from ablate.curvature.edges import Edge, Edges
from ablate.curvature.objective import CurvatureError
from ablate.curvature.trace import FEWEST, Trace
from ablate.errors import Problem

Method = Literal["dense", "quadrature", "none"]


@dataclass(frozen=True)
class Plan:
    """How to probe.

    Attributes:
        top: eigenpairs at the upper end.
        bottom: eigenpairs at the lower end.
        tolerance: largest relative error of each, as estimated.
        most_steps: most dimensions of a Krylov space.
        probes: random starts for the density; 0 for no density.
        trace_products: products spent on the trace beside those of the ends, 6 at least; 0 takes it from the density.
        floor: curvature that counts as none, relative to the largest in size.
        critical: largest decrement over the loss near a critical point.
        exact_below: dimensions up to which the whole Hessian is computed.
        seed: of all draws.

    Raises:
        CurvatureError: too few products for the trace.
    """

    top: int = 1
    bottom: int = 1
    tolerance: float = 1e-3
    most_steps: int = 200
    probes: int = 1
    trace_products: int = 0
    floor: float = 1e-3
    critical: float = 0.01
    exact_below: int = 200
    seed: int = 0

    def __post_init__(self) -> None:
        if self.trace_products and self.trace_products < FEWEST:
            allowed, advice = f"0, or {FEWEST} and more", "0 takes the trace from the density, at no product more."
            raise CurvatureError(Problem("probe: trace_products", f"found {self.trace_products}", allowed, "", advice))


@dataclass(frozen=True)
class Index:
    """How many eigenvalues lie below minus a floor.

    Attributes:
        floor: positive; the share means nothing without it.
        at_least: a lower bound: as many Ritz values lie there, by more than rounding (Cauchy's interlacing).
        share: the estimated share; exact, with no error, if ``method`` is ``dense``. None without a density.
        method: how the share was had.
    """

    floor: float
    at_least: int
    share: Share | None
    method: Method


@dataclass(frozen=True)
class Along:
    """What the gradient has to do with the curvature.

    Attributes:
        norm: of the gradient.
        negative: share of its squared norm along Ritz vectors below minus the floor.
        captured: share of its squared norm in the Krylov space: what ``negative`` could see.
        curvature: along the gradient, g' H g / g' g; None for a zero gradient.
        update: along the last update, if one was given.
    """

    norm: float
    negative: float
    captured: float
    curvature: float | None
    update: float | None


@dataclass(frozen=True)
class Curvature:
    """What a probe found. ``products`` counts all products with the Hessian; ``warm``: from vectors found before."""

    dimension: int
    loss: float
    edges: Edges
    density: Density | None
    trace: Trace | None
    index: Index
    gradient: Along
    decrement: Decrement
    kind: Kind
    evidence: str
    products: int
    dtype: str
    seed: int
    warm: bool

    @property
    def top(self) -> Edge:
        """The largest eigenvalue."""
        return self.edges.top[0]

    @property
    def bottom(self) -> Edge:
        """The smallest eigenvalue."""
        return self.edges.bottom[0]

    @property
    def ratio(self) -> float:
        """Size of the smallest eigenvalue over the largest, 0 unless it is negative."""
        return -self.bottom.value / self.top.value if self.bottom.value < 0 < self.top.value else 0.0
