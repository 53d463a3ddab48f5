"""An audit's findings as columns of the ``audits`` data set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import xxhash

from ablate.audit.distance import Distance
from ablate.audit.slope import SlopeResult

Row = dict[str, Any]


def distance_rows(distances: Sequence[Distance], reference: str, every: bool, check: str = "distance") -> Iterator[Row]:
    """Return a row for every value, or for each quantity's worst and for what is not explained.

    ``count`` is how many values a row stands for: the worst of a quantity stands for all that have no row.
    """
    if every:
        yield from (_distance(one, reference, check, 1) for one in distances)
        return
    by_quantity = sorted(distances, key=lambda one: one.quantity)
    for _, group in groupby(by_quantity, key=lambda one: one.quantity):
        members = list(group)
        odd = [one for one in members if one.verdict not in ("equal", "rounding", "reduced")]
        rest = [one for one in members if one not in odd]
        yield from (_distance(one, reference, check, 1) for one in odd)
        if rest:
            worst = max(rest, key=lambda one: one.error / max(one.bound, one.noise or 0.0, 1e-300))
            yield _distance(worst, reference, check, len(rest))


def _distance(one: Distance, reference: str, check: str, count: int) -> Row:
    return {
        "check": check,
        "verdict": one.verdict,
        "count": count,
        "quantity": one.quantity,
        "name": one.name,
        "reference": reference,
        "shape": one.shape,
        "dtype": one.dtype,
        "error": one.error,
        "scale": one.scale,
        "bound": one.bound,
        "noise": one.noise,
        "own_error": one.own_error,
        "own_bound": one.own_bound,
        "roundoff": one.roundoff,
        "anchor": None if one.quantity == "update" else one.anchor,  # an update is made from the arm's own gradient
        "detail": one.detail,
    }


def slope_rows(
    results: Mapping[str, SlopeResult], stopped: Mapping[str, Sequence[str]], behind: Mapping[str, str]
) -> Iterator[Row]:
    """Return rows of each player's slope check.

    Args:
        results: by player.
        stopped: where the loss of a player stops a gradient that is otherwise right.
        behind: which parameters of a player no slope can judge, and why.
    """
    for player, words in behind.items():
        yield {"check": "slope", "verdict": "unjudged", "quantity": "gradient", "name": player, "detail": words}
    for player, result in results.items():
        if player in stopped:
            lines = ", ".join(stopped[player])
            words = (
                f"the loss stops a gradient (detach or .data at {lines}); with it passed on, the gradient is its slope"
            )
            yield {"check": "slope", "verdict": "unjudged", "quantity": "gradient", "name": player, "detail": words}
        else:
            yield from _slope(player, result)


def _slope(player: str, result: SlopeResult) -> Iterator[Row]:
    if result.bugs:
        for one in result.bugs:
            yield {
                "check": "slope",
                "verdict": "bug",
                "count": 1,
                "quantity": "gradient",
                "name": one.name,
                "error": one.error,
                "scale": one.scale,
                "bound": one.bound,
                "detail": one.words or result.detail,
            }
        return
    worst = max(result.directions, key=lambda one: one.error / max(one.bound, 1e-300), default=None)
    numbers = {"error": worst.error, "scale": worst.scale, "bound": worst.bound} if worst else {}
    yield {
        "check": "slope",
        "verdict": result.verdict,
        "count": len(result.directions),
        "quantity": "gradient",
        "name": player,
        "detail": result.detail,
        **numbers,
    }


def precision_row(roundoff: float, name: str, where: str) -> Row:
    """Return the row that says how coarse the coarsest arithmetic of the step was."""
    return {"check": "precision", "verdict": "clean", "roundoff": roundoff, "dtype": name, "detail": where}


def draw_state_rows(drew: bool, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Row]:
    """Return rows with the states of global generators after the batch, which two arms must share.

    Args:
        drew: whether the batch drew from torch's; a GPU's counts.
        before: the states before the batch, as ``checkpoint.global_generators`` gives them.
        after: those after it. NumPy's and Python's have a row only if the batch drew from them: nobody seeds them.
    """
    state = xxhash.xxh3_64_hexdigest(after["torch"].numpy().tobytes())
    yield {"check": "draw_state", "verdict": "drawn" if drew else "clean", "near": "torch", "detail": state}
    for name in ("numpy", "random"):
        if before[name] != after[name]:
            state = xxhash.xxh3_64_hexdigest(repr(after[name]).encode())
            yield {"check": "draw_state", "verdict": "drawn", "near": name, "detail": state}


def inputs_row(words: str) -> Row:
    """Return the row that says in what this machine's own batches differ from those of a file."""
    return {"check": "inputs", "verdict": "confounded", "count": 1, "detail": words}


def unseen_row(words: str) -> Row:
    """Return the row that says what this audit did not see."""
    return {"check": "scope", "verdict": "unseen", "count": 1, "detail": words}
