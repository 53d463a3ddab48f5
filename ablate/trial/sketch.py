"""A count-sketch of a model's parameters: 256 numbers from which distances between trials are estimated later.

The same parameters give the same bits on every machine, whatever their order of registration, layout in memory or
device: signs and buckets come from Philox, a counter-based generator (Salmon et al. 2011), keyed by the parameter's
name and counted by the element's index; an element becomes float64 exactly; and the order of summation is fixed.
``numpy.bincount`` adds one weight after the other in one C loop (``arr_bincount`` in numpy's ``compiled_base.c``),
unlike ``sum`` or ``reduceat``, whose order is the vector unit's. A test holds it against a plain loop, bit for bit.

What an estimate is worth stands in ``ablate.record.sketch``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ablate.record.recorder import Recorder
from ablate.record.sketch import RUN, WIDTH, Array

Codes = np.ndarray[Any, np.dtype[np.uint16]]


def keep_sketch(model: nn.Module, batch_index: int, recorder: Recorder) -> None:
    """Record the sketch of a model's floating parameters; without its values where they are not all finite.

    Raises:
        StoreError: if the disk is full or fails.
    """
    parameters = {name: p for name, p in model.named_parameters() if p.is_floating_point() or p.is_complex()}
    values = sketch(parameters)
    size = sum(p.numel() * (2 if p.is_complex() else 1) for p in parameters.values())
    recorder.sketch(batch_index, size, values if np.isfinite(values).all() else None)


def sketch(parameters: Mapping[str, Tensor]) -> Array:
    """Return the sketch of named tensors.

    Args:
        parameters: any shapes, floating or complex types, devices.

    Returns:
        Array: shape (256,); not finite if an element is not.
    """
    flat = [_flat(parameters[name]) for name in sorted(parameters)]
    if not flat:
        return np.zeros(WIDTH)
    if len({tensor.device for tensor in flat}) > 1:
        flat = [tensor.cpu() for tensor in flat]
    joined = torch.cat(flat)
    if joined.dtype in (torch.bfloat16, torch.float16):
        joined = joined.float()  # exact; numpy has no bfloat16
    numbers = joined.cpu().numpy()
    codes = _codes(tuple((name, tensor.numel()) for name, tensor in zip(sorted(parameters), flat, strict=True)))
    total = np.zeros(2 * WIDTH)
    with np.errstate(invalid="ignore", over="ignore"):
        for at in range(0, len(codes), RUN):
            total += np.bincount(codes[at : at + RUN], weights=numbers[at : at + RUN], minlength=2 * WIDTH)
        values: Array = total[:WIDTH] - total[WIDTH:]
    return values


def _flat(tensor: Tensor) -> Tensor:
    tensor = tensor.detach()
    return (torch.view_as_real(tensor) if tensor.is_complex() else tensor).reshape(-1)


@lru_cache(maxsize=2)
def _codes(sizes: tuple[tuple[str, int], ...]) -> Codes:
    """Return bucket, plus 256 where the sign is minus, of every element of every tensor in turn."""
    return np.concatenate([_codes_of(name, size) for name, size in sizes])


def _codes_of(name: str, size: int) -> Codes:
    key = int.from_bytes(hashlib.sha256(f"sketch\x1f{name}".encode()).digest()[:16], "big")
    drawn: np.ndarray[Any, np.dtype[np.uint64]] = np.random.Philox(key=key).random_raw(size)
    return (drawn >> np.uint64(55)).astype(np.uint16)  # the highest 9 of 64 bits
