"""Expanded tensors: what repeats in memory, once."""

from __future__ import annotations

import torch
from torch import Tensor


def once(t: Tensor) -> Tensor:
    """Return a view in which each repeated dimension (stride 0) of a strided tensor has size 1; expand it to undo."""
    sizes = tuple(1 if stride == 0 else size for size, stride in zip(t.shape, t.stride(), strict=True))
    return t.as_strided(sizes, t.stride(), t.storage_offset())


def copied(t: Tensor) -> Tensor:
    """Return a clone without gradient; repeated elements of a strided tensor stay shared."""
    plain = t.detach() if t.requires_grad else t
    if plain.layout is not torch.strided or 0 not in plain.stride():
        return plain.clone()
    return once(plain).clone().expand(plain.shape)
