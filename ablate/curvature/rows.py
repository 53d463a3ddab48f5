"""A probe as rows of one named value each, without tensors: what a data set keeps of it.

A row is left out where nothing was looked for (no density, no last update). A value is null where there is none: the
curvature along a gradient that is zero, the escape rate of an optimiser without a rule, which ``method`` names.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ablate.curvature.density import Density
from ablate.curvature.edges import Edge
from ablate.curvature.found import Curvature
from ablate.curvature.game import Game
from ablate.curvature.step import Step, escape

CURVATURE = "loss / parameter^2"
SLOPE = "loss / parameter"


def rows(found: Curvature, *, player: str = "", optimiser: Step | None = None) -> list[dict[str, Any]]:
    """Return the rows of one probe: columns ``player`` to ``masses``, ``dtype``, ``seed`` and ``products``.

    Args:
        found: the probe.
        player: whose parameters and loss were looked at.
        optimiser: its step, for the escape rate; None for no such row.
    """
    always = {"dtype": found.dtype, "seed": found.seed, "products": found.products}
    parts = (_point(found), _edges(found), _index(found), _density(found), _gradient(found), _escape(found, optimiser))
    return [{"player": player, **row, **always} for part in parts for row in part]


def game_rows(found: Game, *, player: str = "game") -> list[dict[str, Any]]:
    """Return the rows of a game: the roots' parts, position the rank by real part, ``text`` where each is outermost.

    ``bound`` is a residual, a backward error: of a matrix that far away the root is an eigenvalue.
    """
    always = {"dtype": found.dtype, "seed": found.seed, "products": found.products}
    made = []
    for i, root in enumerate(found.roots):
        more = {"position": i, "bound": root.residual, "converged": root.converged, "text": ", ".join(root.ends)}
        for name, value in (("game_real", root.real), ("game_imag", root.imaginary)):
            made.append({"player": player, **_row(name, value, CURVATURE, found.method, **more), **always})
    return made


def _row(name: str, value: float | None, unit: str, method: str, **more: Any) -> dict[str, Any]:
    empty: dict[str, Any] = {"position": None, "value": value, "unit": unit, "bound": None, "converged": None}
    return {"name": name, **empty, "method": method, "text": None, "points": None, "masses": None, **more}


def _point(found: Curvature) -> Iterator[dict[str, Any]]:
    yield _row("loss", found.loss, "loss", "exact")
    yield _row("dimension", float(found.dimension), "count", "exact")
    yield _row("decrement_least", found.decrement.least, "loss", "bracket")
    yield _row("decrement_most", found.decrement.most, "loss", "bracket")
    yield _row("kind", None, "", "decrement", text=found.kind)
    yield _row("evidence", None, "", "decrement", text=found.evidence)


def _edges(found: Curvature) -> Iterator[dict[str, Any]]:
    how = _how(found)
    for name, edges in (("lambda_max", found.edges.top), ("lambda_min", found.edges.bottom)):
        for i, edge in enumerate(edges):
            known = {"bound": edge.bound, "converged": edge.converged}
            yield _row(name, edge.value, CURVATURE, how, position=i, **known)
    yield _row("negativity_ratio", found.ratio, "share", how, bound=_ratio_bound(found.ratio, found.top, found.bottom))


def _ratio_bound(ratio: float, top: Edge, bottom: Edge) -> float | None:
    """Return how far the ratio is off at most if each edge is within its bound; None if the largest may be 0."""
    least = top.value - top.bound
    return (bottom.bound + ratio * top.bound) / least if least > 0 else None


def _index(found: Curvature) -> Iterator[dict[str, Any]]:
    index = found.index
    yield _row("floor", index.floor, CURVATURE, _how(found))
    yield _row("negative_at_least", float(index.at_least), "count", "dense" if index.method == "dense" else "ritz")
    if index.share is not None:
        share = index.share
        yield _row("negative_share", share.value, "share", index.method, bound=share.standard_error)
        yield _row("negative_share_low", share.low, "share", index.method)
        yield _row("negative_share_high", share.high, "share", index.method)


def _density(found: Curvature) -> Iterator[dict[str, Any]]:
    """Yield the trace and the density, one row a start; each is a measure of its own, whose mean is the estimate."""
    trace, density, how = found.trace, found.density, "dense" if found.index.method == "dense" else "quadrature"
    if trace is not None:
        by_itself = trace.products > 0
        yield _row("trace", trace.value, CURVATURE, "xtrace" if by_itself else how, bound=trace.standard_error)
    if density is None:
        return
    for i, sample in enumerate(density.samples or [None]):
        one = Density(density.atoms, (sample,) if sample else (), density.dimension)
        error = float(one.standard_errors.max()) if sample else 0.0
        measure = {"points": one.nodes.tolist(), "masses": one.weights.tolist()}
        yield _row("density", None, "share", how, position=i, bound=error, **measure)


def _gradient(found: Curvature) -> Iterator[dict[str, Any]]:
    along, how = found.gradient, _how(found)
    yield _row("gradient_norm", along.norm, SLOPE, "exact")
    yield _row("gradient_negative_share", along.negative, "share", how)
    yield _row("gradient_captured", along.captured, "share", how)
    yield _row("curvature_gradient", along.curvature, CURVATURE, "exact")
    if along.update is not None:
        yield _row("curvature_update", along.update, CURVATURE, "exact")


def _escape(found: Curvature, optimiser: Step | None) -> Iterator[dict[str, Any]]:
    if optimiser is not None:
        rate, bound, method = escape(found.edges, optimiser)
        yield _row("escape_rate", rate, "1 / step", method, bound=bound)


def _how(found: Curvature) -> str:
    return "dense" if found.index.method == "dense" else "lanczos, warm" if found.warm else "lanczos"
