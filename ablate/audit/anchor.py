"""A fixed linear functional of a tensor: one number by which two machines' float64 references can be compared.

<signs, t> with signs +1 or -1 from a counter-based generator keyed by the name (Philox; Salmon et al., SC 2011), whose
raw words NumPy keeps the same in every release. Terms are added in pairs, halving the array each time, so the order is
fixed and no kernel of torch or NumPy chooses it.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ablate.audit.norms import plain

Floats = np.ndarray[Any, np.dtype[Any]]


def anchor(t: Tensor, name: str) -> float:
    """Return the inner product in float64 of ``t``, in the order of its elements, with the signs of ``name``.

    A complex tensor counts as its real and imaginary parts.
    """
    values = plain(t).to(torch.float64).contiguous().reshape(-1).numpy()
    with np.errstate(over="ignore", invalid="ignore"):  # an infinite anchor says so itself
        return _folded(values * signs(name, values.size))


def signs(name: str, length: int) -> Floats:
    """Return the first ``length`` signs of ``name``, each 1.0 or -1.0."""
    key = np.frombuffer(hashlib.sha256(name.encode()).digest()[:16], dtype="<u8").astype(np.uint64)
    words = np.random.Philox(key=key).random_raw(-(-length // 64) if length else 1)
    bits = np.unpackbits(words.astype("<u8").view(np.uint8), bitorder="little")[:length]
    return 1.0 - 2.0 * bits


def _folded(values: Floats) -> float:
    while values.size > 1:
        half = values.size // 2
        folded = values[:half] + values[half : 2 * half]
        values = np.append(folded, values[-1]) if values.size % 2 else folded
    return float(values[0]) if values.size else 0.0
