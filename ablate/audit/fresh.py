"""Copies of everything autograd saves, made when it is saved: no later write can reach the backward pass."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from ablate.audit.role import role


class _Copy:
    """What the graph holds: the copy, and the tensor itself for operations that write to what they saved."""

    __slots__ = ("copy", "tensor")

    def __init__(self, tensor: Tensor, copy: Tensor) -> None:
        self.tensor = tensor
        self.copy = copy


@contextmanager
def fresh_copies() -> Iterator[None]:
    """Copy each tensor when autograd saves it, and give backward the copy; gradients are those of unchanged tensors.

    A write between forward and backward has no effect, whether torch would have seen it or not: where torch would
    refuse the backward, here it works. Parameters and other tensors that were not computed are copied again only if
    their contents have changed since they were last saved. Backward may run after the context has ended. The few
    operations that write to tensors they saved themselves (see ``role``) get those, as they must.
    """
    latest: dict[tuple[object, ...], Tensor] = {}

    def pack(t: Tensor) -> _Copy:
        plain = t.detach()
        if t.grad_fn is not None or t.layout is not torch.strided:
            return _Copy(plain, _copied(plain))
        place = (t.data_ptr(), t.shape, t.stride(), t.dtype, t.device)
        copy = latest.get(place)
        if copy is None or not _same_bits(copy, plain):
            copy = latest[place] = _copied(plain)
        return _Copy(plain, copy)

    def unpack(saved: _Copy) -> Tensor:
        return saved.tensor if role(saved).written_by_itself else saved.copy

    with saved_tensors_hooks(pack, unpack):
        yield


def _copied(t: Tensor) -> Tensor:
    """A clone; repeated elements (stride 0) stay shared."""
    if t.layout is not torch.strided or 0 not in t.stride():
        return t.clone()
    sizes = [1 if stride == 0 else size for size, stride in zip(t.shape, t.stride(), strict=True)]
    return t.as_strided(sizes, t.stride(), t.storage_offset()).clone().expand(t.shape)


def _same_bits(a: Tensor, b: Tensor) -> bool:
    """Equal contents; NaN equals nothing, which only costs a copy."""
    return torch.equal(a, b) and not bool((a == 0).any() and (torch.signbit(a) != torch.signbit(b)).any())
