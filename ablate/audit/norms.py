"""Norms and distances of tensors of any type, layout and device: Euclidean, over all elements, in float64."""

from __future__ import annotations

import math

import torch
from torch import Tensor

SQUARED = 1e100
"""Norms between its inverse and it were made without overflow, and whatever underflowed was too small to count."""


def norm(t: Tensor) -> float:
    """Return the Euclidean norm, also where squares overflow or underflow; a complex tensor's parts count each."""
    x = plain(t)
    found = float(torch.linalg.vector_norm(x, dtype=torch.float64))
    if 1 / SQUARED < found < SQUARED or x.numel() == 0:
        return found
    largest = float(x.abs().max())
    if largest == 0 or not math.isfinite(largest):
        return largest
    return largest * float(torch.linalg.vector_norm(x.to(torch.float64) / largest))


def distance(a: Tensor, b: Tensor) -> float:
    """Return ||a - b||, as ``norm`` does; 0 for equal infinities in both, NaN wherever else either is not finite."""
    x, y = plain(a), plain(b).to(torch.float64)
    found = norm(x - y)
    if not math.isfinite(found):
        found = norm(torch.where(x == y, 0.0, x - y))
    return found if math.isfinite(found) else math.nan


def rms(t: Tensor) -> float:
    """Return the root mean square of a floating or complex tensor on its own device; 0 of an empty one."""
    return float(torch.linalg.vector_norm(t)) / math.sqrt(t.numel()) if t.numel() else 0.0


def plain(t: Tensor) -> Tensor:
    """Return the numbers on the CPU, dense; a complex tensor as its real and imaginary parts."""
    found = t.detach().cpu()
    if found.layout is not torch.strided:
        found = found.to_dense()
    if not (found.is_floating_point() or found.is_complex()):
        return found.to(torch.float64)
    return torch.view_as_real(found.resolve_conj()) if found.is_complex() else found
