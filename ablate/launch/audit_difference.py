"""The first element in which two trials' inputs differ: hashes say that weights or data differ, not where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

Arrays = Mapping[str, np.ndarray[Any, Any]]


def first_difference(names: tuple[str, str], kept: tuple[Path, Path], weights: tuple[Path | None, Path | None]) -> str:
    """Return the first difference in words: initial weights, then batches in order; empty if there is none.

    Args:
        names: what the two trials are called.
        kept: files that they wrote, with ``batch.<number>.index`` and ``batch.<number>.tensors.<name>``.
        weights: files of their initial weights; None for a trainable that gives none.
    """
    for where, one, two in _pairs(kept, weights):
        for name in sorted({*one, *two}, key=_order):
            a, b = one.get(name), two.get(name)
            if a is None or b is None:
                return f"{where}{_short(name)} is there in {names[0] if b is None else names[1]} only"
            if a.shape != b.shape or a.dtype != b.dtype:
                return f"{where}{_short(name)} is {a.dtype} {a.shape} in {names[0]}, {b.dtype} {b.shape} in {names[1]}"
            unequal = np.argwhere(_bits(a) != _bits(b))
            if len(unequal):
                place = tuple(int(one) for one in unequal[0])
                at = f"{where}{_short(name)}{list(place)}"
                return f"{at} is {a[place]:.9g} in {names[0]}, {b[place]:.9g} in {names[1]}"
    return ""


def _pairs(kept: tuple[Path, Path], weights: tuple[Path | None, Path | None]) -> Iterator[tuple[str, Arrays, Arrays]]:
    if weights[0] and weights[1]:
        yield "initial weights, ", load_file(weights[0]), load_file(weights[1])
    batches = [{name: a for name, a in load_file(file).items() if name.startswith("batch.")} for file in kept]
    yield "", batches[0], batches[1]


def _order(name: str) -> tuple[int, bool, str]:
    """Batches in their order, a batch's index list before its tensors."""
    parts = name.split(".")
    return (int(parts[1]), parts[2] != "index", name) if parts[0] == "batch" else (0, True, name)


def _short(name: str) -> str:
    parts = name.split(".")
    if parts[0] != "batch":
        return name
    return f"batch {parts[1]}, {'samples' if parts[2] == 'index' else '.'.join(parts[3:])}"


def _bits(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return an array whose elements are equal where all bits are."""
    return array.view(f"u{array.dtype.itemsize}") if array.dtype.kind == "f" else array
