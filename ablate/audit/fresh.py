"""Copies of everything autograd saves, made when it is saved: no later write can reach the backward pass."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from ablate.audit.checksum import PLAIN, checksum, unseen
from ablate.audit.once import copied
from ablate.audit.role import role, writes_what_it_saves


class Copies:
    """What is known of the copies.

    Attributes:
        overwritten: whether contents had changed when backward asked for a tensor, if that is compared.
    """

    def __init__(self) -> None:
        self.overwritten = False


class _Copy:
    """What the graph holds: the copy, and the tensor itself for operations that write to what they saved.

    Attributes:
        contents: checksum of the tensor when it was saved; None if it was not taken.
    """

    __slots__ = ("contents", "copy", "tensor")

    def __init__(self, tensor: Tensor, copy: Tensor, contents: int | None) -> None:
        self.tensor = tensor
        self.copy = copy
        self.contents = contents


@contextmanager
def fresh_copies(compare: bool = False) -> Iterator[Copies]:
    """Copy each tensor when autograd saves it, and give backward the copy; gradients are those of unchanged tensors.

    A write between forward and backward has no effect, whether torch would have seen it or not: where torch would
    refuse the backward, here it works. Parameters and other tensors that were not computed are copied again only if
    their contents have changed since they were last saved. Backward may run after the context has ended. The few
    operations that write to tensors they saved themselves (see ``role``) get those, as they must.

    Args:
        compare: whether to compare each tensor with its copy when backward asks for it.
    """
    latest: dict[tuple[object, ...], tuple[int | None, Tensor]] = {}
    copies = Copies()

    def pack(t: Tensor) -> _Copy:
        plain = _detached(t)
        if t.grad_fn is not None or t.layout is not torch.strided:
            return _Copy(plain, copied(plain), _contents(plain) if compare else None)
        place = (t.data_ptr(), t.shape, t.stride(), t.dtype, t.device)
        contents = _contents(plain)
        held = latest.get(place)
        if held is None or contents is None or held[0] != contents:
            held = latest[place] = contents, copied(plain)
        return _Copy(plain, held[1], contents)

    def unpack(saved: _Copy) -> Tensor:
        if writes_what_it_saves() and role(saved).written_by_itself:
            return saved.tensor
        if compare and not copies.overwritten:
            copies.overwritten = saved.contents is None or _contents(saved.tensor) != saved.contents
        return saved.copy

    with saved_tensors_hooks(pack, unpack):
        yield copies


def _detached(t: Tensor) -> Tensor:
    """Detach; a dispatch mode that looks on at the step is not told, which would cost more than all the rest."""
    if type(t) not in PLAIN or not torch._C._len_torch_dispatch_stack():
        return t.detach()
    with torch._C._DisableTorchDispatch():
        return t.detach()


def _contents(t: Tensor) -> int | None:
    """Return the checksum of a plain tensor; None for any other, which counts as changed: that costs a copy."""
    return checksum(t) if type(t) in PLAIN and not unseen(t) else None
