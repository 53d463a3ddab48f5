"""Hashes that show two arms got the same weights, the same batches and the same draws."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
import xxhash
from torch import Tensor, nn

from ablate.trial.draw import Draw, Stream

TOGETHER = 64
"""So many batches' index lists wait to be hashed, at most."""


def _update(digest: xxhash.xxh3_64, name: str, tensor: Tensor) -> None:
    data = tensor.detach().cpu().contiguous()
    digest.update(f"{name}|{data.dtype}|{tuple(data.shape)}|".encode())
    size = data.numel() * data.element_size()
    if size:
        digest.update((ctypes.c_char * size).from_address(data.data_ptr()))


def tensors_hash(tensors: Iterable[tuple[str, Tensor]]) -> int:
    """Return a 64-bit hash over names, types, shapes and contents, in the order given."""
    digest = xxhash.xxh3_64()
    for name, tensor in tensors:
        _update(digest, name, tensor)
    return int(digest.intdigest())


def state(model: nn.Module) -> dict[str, Tensor]:
    """Return every parameter and buffer of ``model`` by name, shared ones once, sorted."""
    return dict(sorted([*model.named_parameters(), *model.named_buffers()]))


def model_hash(model: nn.Module) -> str:
    """Return the hash of a model's parameters and buffers as 16 hex digits."""
    return f"{tensors_hash(state(model).items()):016x}"


def content_hash(tensors: Mapping[str, Tensor]) -> int:
    """Return the hash of one batch's contents, taken before any cast or perturbation of the arm's."""
    return tensors_hash(sorted(tensors.items()))


class OrderChain:
    """A running hash over every batch's index list and every stream's position: one number covers the whole order.

    Batches are copied as they come and hashed when the number is asked for, or ``TOGETHER`` at once: what a step drives
    out of the caches comes back once for all of them, which is most of what hashing one by itself takes.
    """

    def __init__(self, draw: Draw) -> None:
        self._draw = draw
        self._streams: list[tuple[str, Stream]] = []
        self._digest = 0
        self._positions = b""
        self._unhashed: list[tuple[int, bytes, tuple[int, ...]]] = []

    def add(self, index: np.ndarray[Any, np.dtype[np.int64]]) -> None:
        """Add one batch."""
        if len(self._streams) != len(self._draw.streams):  # one is never replaced by another
            self._hash()
            self._streams = sorted(self._draw.streams.items())
            self._positions = "".join([f"{name.replace('%', '%%')}:%d|" for name, _ in self._streams]).encode()
        self._unhashed.append((index.size, index.tobytes(), tuple([stream.count for _, stream in self._streams])))
        if len(self._unhashed) == TOGETHER:
            self._hash()

    @property
    def digest(self) -> int:
        """The hash of all batches so far."""
        self._hash()
        return self._digest

    def go_on_from(self, digest: int) -> None:
        """Take up the hash of batches that an earlier attempt added."""
        self._unhashed.clear()
        self._digest = digest

    def draws(self) -> str:
        """Return ``draws_hash`` of the trial's streams."""
        return draws_hash(self._draw)

    def _hash(self) -> None:
        for size, content, counts in self._unhashed:
            whole = b"%b%d|%b%b" % (self._digest.to_bytes(8, "little"), size, content, self._positions % counts)
            self._digest = xxhash.xxh3_64_intdigest(whole)
        self._unhashed.clear()


def draws_hash(draw: Draw) -> str:
    """Return the hash of every value drawn from every stream so far, as 16 hex digits."""
    digest = xxhash.xxh3_64()
    for name, stream in sorted(draw.streams.items()):
        digest.update(f"{name}:{stream.digest:x}|".encode())
    return f"{digest.intdigest():016x}"


def one_ulp(parameters: Iterable[tuple[str, nn.Parameter]], draw: Draw) -> None:
    """Move every element of every floating parameter to a neighbouring number, up or down by a fair draw, in place.

    The smallest change the arm's precision can hold: the control that shows what rounding alone does to an outcome
    (Summers and Dinneen 2021, arXiv 2103.04514: one flipped bit diverges like any other source of noise).

    A 0 has denormal neighbours, 1.4e-45 in float32, which no rounding of weights makes. Products with them underflow:
    the arm loses gradients that float64 keeps, and the audit rightly calls that a fault. Beside a 0 rounding is what
    the other terms of its sums make, so it moves by the last place of the tensor's median magnitude, which no order of
    summing changes. A tensor of zeros alone has no scale, and is exact in every precision: it stays.
    """
    stream = draw("perturb")
    with torch.no_grad():
        for _, parameter in parameters:
            up = stream.mask(0.5, tuple(parameter.shape)).to(parameter.dtype)
            target = torch.where(up > 0, torch.inf, -torch.inf).to(parameter.dtype)
            moved = torch.nextafter(parameter, target)
            parameter.copy_(torch.where(parameter == 0, _last_place(parameter).copysign(target), moved))


def _last_place(t: Tensor) -> Tensor:
    """Return the distance from the median magnitude of what is not 0 to the next number; 0 if nothing is."""
    sizes = t[t != 0].abs()
    if not sizes.numel():
        return t.new_zeros(())
    size = sizes.median()
    spacing = torch.nextafter(size, torch.full_like(size, torch.inf)) - size
    return spacing if bool(spacing.isfinite()) else torch.zeros_like(spacing)
