"""One arm's arithmetic here against the same arm's elsewhere, on equal weights and batches.

Each side was held against its own float64. If every value has equal bits, the arms are BITWISE EQUAL. Else two things
may differ: the float64 references, which then are two functions and not one, and the arms' own values, whose distance
rounding explains up to the sum of what it explains of each.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

Arrays = Mapping[str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class Compared:
    """One trial here against the same one in the file.

    Attributes:
        trial: its key in words.
        cause: BUG, ROUNDING, BITWISE EQUAL, or UNKNOWN if one side could not be audited.
        values: how many were compared.
        equal: how many have equal bits.
        worst: the value that differs most, as a share of what rounding explains; empty if all are equal.
        error: its distance.
        bound: what rounding explains of that.
        detail: what was found, in words.
    """

    trial: str
    cause: Literal["BUG", "ROUNDING", "BITWISE EQUAL", "UNKNOWN"]
    values: int
    equal: int
    worst: str
    error: float
    bound: float
    detail: str


def compare(trial: str, here: Arrays, there: Arrays) -> Compared:
    """Compare two sets of values, each with ``<quantity>.<name>.arm``, ``.float64``, ``.bound`` and ``.exact``."""
    if not here or not there:
        words = f"no value was kept {'there' if here else 'here'}: the arm could not be held against float64"
        return Compared(trial, "UNKNOWN", 0, 0, "", 0.0, 0.0, words)
    names = sorted({name.rpartition(".")[0] for name in here.keys() | there.keys()})
    lost = [name for name in names if f"{name}.arm" not in here or f"{name}.arm" not in there]
    other = [name for name in names if name not in lost and here[f"{name}.arm"].shape != there[f"{name}.arm"].shape]
    if lost or other:
        words = f"{_words((lost + other)[0])} is there on one side only, or has another shape"
        return Compared(trial, "BUG", len(names), 0, (lost + other)[0], 0.0, 0.0, words)
    equal = sum(same_bits(here[f"{name}.arm"], there[f"{name}.arm"]) for name in names)
    shares = {name: _share(name, here, there) for name in names}
    worst = max(shares, key=lambda name: shares[name].share)
    found = shares[worst]
    if found.share > 1:
        kind = "already in float64" if found.exact else "in the arm's precision"
        words = f"{_words(worst)} differs by {found.error:.2g} {kind}, {found.share:.2g} times what rounding explains"
        return Compared(trial, "BUG", len(names), equal, worst, found.error, found.bound, words)
    if equal == len(names):
        words = f"all {len(names)} values are equal, bit for bit"
        return Compared(trial, "BITWISE EQUAL", len(names), equal, "", 0.0, found.bound, words)
    words = f"{equal} of {len(names)} values have equal bits; farthest apart is {_words(worst)}, by {found.error:.2g}, "
    words += f"{found.share:.2g} of what rounding explains"
    return Compared(trial, "ROUNDING", len(names), equal, worst, found.error, found.bound, words)


def same_bits(one: np.ndarray[Any, Any], two: np.ndarray[Any, Any]) -> bool:
    """Say whether two arrays are equal bit by bit: NaNs then are, and 0 and -0 are not."""
    return one.dtype == two.dtype and one.shape == two.shape and one.tobytes() == two.tobytes()


@dataclass(frozen=True)
class _Share:
    """How far a value is apart, as a share of what rounding explains; ``exact`` if its float64 references are meant."""

    share: float
    error: float
    bound: float
    exact: bool


def _share(name: str, here: Arrays, there: Arrays) -> _Share:
    """Return what is farther apart, the arms' values or their references.

    An update is made from the arm's own gradient, and where an optimiser looks at signs, rounding can turn one: what
    updates differ by between machines says nothing beyond the distance of each from its own float64.
    """
    if name.startswith("update."):
        return _Share(0.0, 0.0, 0.0, False)
    found = []
    for kind, explained in (("arm", "bound"), ("float64", "exact")):
        bound = float(here[f"{name}.{explained}"]) + float(there[f"{name}.{explained}"])
        one, two = here[f"{name}.{kind}"], there[f"{name}.{kind}"]
        error = 0.0 if same_bits(one, two) else float(np.linalg.norm((one - two).ravel()))
        share = 0.0 if error == 0 else error / bound if bound > 0 and math.isfinite(error) else math.inf
        found.append(_Share(share, error, bound, kind == "float64"))
    return max(found, key=lambda one: one.share)


def _words(name: str) -> str:
    quantity, _, rest = name.partition(".")
    return f"the {quantity} of {rest}"
