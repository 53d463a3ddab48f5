"""One artifact: what a trainable hands over to be looked at, or a parameter's gradient and weights in numbers.

Images are kept as they are shown: uint8, or floats cut to [0, 1] and rounded to float16 (11 bits). Arrays keep every
bit, but for bfloat16, which NumPy does not know and float32 holds exactly.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ablate.errors import Problem
from ablate.record.columns import ArtifactKind
from ablate.trial.contract import TrainableError
from ablate.trial.protocol import Images, Maps

BINS = 32
"""Of a histogram, equally wide from the smallest to the largest finite element."""

Array = np.ndarray[Any, Any]
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_SHOWN = "Images, Maps, a tensor or array of numbers, or a number"


@dataclass(frozen=True)
class Artifact:
    """What is recorded under one name.

    Attributes:
        name: its name.
        kind: image, map, array, histogram or number.
        shape: of the array, or of the tensor that the number or histogram is about.
        array: for an image, map or array.
        value: of a number; None if it is not finite.
        low: smallest finite element of a histogram; None if there is none.
        high: largest finite element.
        counts: elements per bin; those that are not finite are in none.
    """

    name: str
    kind: ArtifactKind
    shape: tuple[int, ...]
    array: Array | None = None
    value: float | None = None
    low: float | None = None
    high: float | None = None
    counts: tuple[int, ...] | None = None


def shown(name: object, value: object, where: str) -> Artifact:
    """Return what a trainable handed over, copied to the host.

    Args:
        name: lower-case letters, digits and _.
        value: ``Images``, ``Maps``, a tensor or array, or a number.
        where: trial's place in words, for messages.

    Raises:
        TrainableError: on another name, type or shape; it says which are allowed.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        allowed = "lower-case letters, digits and _, beginning with a letter"
        raise TrainableError(Problem(where, f"an artifact is named {name!r}", allowed))
    if isinstance(value, Images | Maps):
        return _picture(name, value, f"{where}, artifact {name}")
    if isinstance(value, Tensor | np.ndarray | np.generic | int | float):
        array = _array(value)
        if array.dtype.kind in "biuf":
            return _number(name, float(array)) if array.ndim == 0 else Artifact(name, "array", array.shape, array)
        raise TrainableError(Problem(f"{where}, artifact {name}", f"found an array of {array.dtype}", _SHOWN))
    raise TrainableError(Problem(f"{where}, artifact {name}", f"found a {type(value).__name__}", _SHOWN))


def norm(name: str, tensor: Tensor) -> Artifact:
    """Return the Euclidean norm of a tensor, summed in float64."""
    array = _array(tensor).astype(np.float64, copy=False)
    with np.errstate(over="ignore", invalid="ignore"):
        return _number(name, float(np.sqrt(np.square(array).sum())), array.shape)


def histogram(name: str, tensor: Tensor) -> Artifact:
    """Return the histogram of a tensor's elements."""
    array = _array(tensor)
    finite = array[np.isfinite(array)].astype(np.float64, copy=False)
    if not finite.size:
        return Artifact(name, "histogram", array.shape, counts=(0,))
    low, high = float(finite.min()), float(finite.max())
    if not low < high or not math.isfinite(high - low) or (high - low) / BINS == 0.0:
        return Artifact(name, "histogram", array.shape, low=low, high=high, counts=(finite.size,))
    counts = np.histogram(finite, bins=BINS, range=(low, high))[0]
    return Artifact(name, "histogram", array.shape, low=low, high=high, counts=tuple(counts.tolist()))


def _picture(name: str, value: Images | Maps, where: str) -> Artifact:
    if not isinstance(value.values, Tensor | np.ndarray):
        found = f"{type(value).__name__} of a {type(value.values).__name__}"
        raise TrainableError(Problem(where, found, f"{type(value).__name__} of a tensor or array"))
    array = _array(value.values)
    channels = (1, 3) if isinstance(value, Images) else (1,)
    if array.ndim != 4 or array.shape[1] not in channels or 0 in array.shape:
        found = f"{type(value).__name__} of shape {array.shape}"
        raise TrainableError(Problem(where, found, f"(N, C, H, W) with C {' or '.join(map(str, channels))}"))
    if array.dtype.kind != "f" and array.dtype != np.uint8:
        raise TrainableError(Problem(where, f"{type(value).__name__} of {array.dtype}", "uint8, or floats"))
    if array.dtype.kind == "f":
        most = 1.0 if isinstance(value, Images) else float(np.finfo(np.float16).max)
        array = np.clip(array, 0.0, most).astype(np.float16)
    return Artifact(name, "image" if isinstance(value, Images) else "map", array.shape, np.ascontiguousarray(array))


def _number(name: str, value: float, shape: tuple[int, ...] = ()) -> Artifact:
    return Artifact(name, "number", shape, value=value if math.isfinite(value) else None)


def _array(value: Tensor | Array | np.generic | float) -> Array:
    """Return a copy in the host's memory."""
    if not isinstance(value, Tensor):
        return np.array(value)
    tensor = value.detach()
    if tensor.dtype == torch.bfloat16:
        tensor = tensor.float()
    return np.array(tensor.cpu().numpy())
