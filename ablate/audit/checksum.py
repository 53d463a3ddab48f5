"""A position-dependent checksum of exactly the elements a tensor covers, read in place where its layout allows.

xxh3_64 over the covered bytes: permuted contents give another checksum, which a sum would miss, and two different
contents share one with probability about 2**-64. What each layout costs:

- contiguous, or dense in some other order of its dimensions (a transpose, channels_last): one pass over its memory;
- expanded (stride 0): the repeated dimension is read once;
- with gaps or overlaps (a slice, an unfold): a contiguous copy of the covered elements is hashed, so that a write to
  the rest of the storage changes nothing;
- sparse: indices and values; MKL-DNN blocked: a dense copy; on another device: a copy on the CPU.

Memory is read through its address, so every element type works alike (bfloat16, bool, complex), and lazily conjugated
or negated views are hashed as they are stored.
"""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch import Tensor, nn
from xxhash import xxh3_64_intdigest

from ablate.audit.once import once

PLAIN = frozenset({Tensor, nn.Parameter})
"""Types whose memory is what ``data_ptr`` says and whose methods no subclass has changed."""


class _ByteArrays(dict[int, Any]):
    """ctypes array types by length; making one costs more than hashing a kilobyte."""

    def __missing__(self, length: int) -> Any:
        made = self[length] = ctypes.c_char * length
        return made


_BYTES = _ByteArrays()


def digest(address: int, length: int) -> int:
    """Return the checksum of ``length`` bytes of live memory at ``address``."""
    return xxh3_64_intdigest(_BYTES[length].from_address(address))


def dense_bytes(t: Tensor) -> int:
    """Return the length of the gapless memory at ``t.data_ptr()`` that ``t`` covers; 0 if it is not of that kind.

    Only for what has contents (``unseen`` is empty). 0 also for an empty tensor and for one that is not on the CPU.
    """
    if t.layout is not torch.strided or not t.is_cpu:
        return 0
    if t.is_contiguous():
        return t.nbytes
    expected = 1
    for stride, size in sorted((stride, size) for size, stride in zip(t.shape, t.stride(), strict=True) if size != 1):
        if stride == 0:
            continue
        if stride != expected:
            return 0
        expected *= size
    return expected * t.itemsize if t.numel() else 0


def checksum(t: Tensor) -> int:
    """Return the checksum of the elements that ``t`` covers; only for what has contents (``unseen`` is empty)."""
    length = dense_bytes(t)
    if length:
        return digest(t.data_ptr(), length)
    with torch._C.DisableTorchFunctionSubclass(), torch.no_grad():
        return _slow_checksum(t)


def unseen(t: Tensor) -> str:
    """Say why ``t`` has no contents that could be hashed; empty if it has."""
    kind = type(t)
    if kind not in PLAIN and kind.__torch_dispatch__ is not Tensor.__torch_dispatch__:
        return f"{kind.__name__}: keeps its contents elsewhere"
    if t.is_meta:
        return "meta tensor: has no contents"
    if t.is_nested:
        return "nested tensor"
    if t._is_zerotensor():
        return "zero tensor of forward-mode differentiation: has no contents"
    return ""


def _slow_checksum(t: Tensor) -> int:
    parts = _parts(t)
    if parts:
        return xxh3_64_intdigest(b"".join(checksum(part).to_bytes(8, "little") for part in parts))
    if t.numel() == 0:
        return 0
    covered = once(t).cpu().contiguous()
    return digest(covered.data_ptr(), covered.nbytes)


def _parts(t: Tensor) -> tuple[Tensor, ...]:
    """Return the strided tensors that make up a tensor of another layout; empty for a strided one."""
    if t.layout is torch.strided:
        return ()
    if t.layout is torch.sparse_coo:
        return t._indices(), t._values()
    if t.layout in (torch.sparse_csr, torch.sparse_bsr):
        return t.crow_indices(), t.col_indices(), t.values()
    if t.layout in (torch.sparse_csc, torch.sparse_bsc):
        return t.ccol_indices(), t.row_indices(), t.values()
    return (t.to_dense(),)
