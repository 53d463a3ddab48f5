"""Brings a batch's tensors to where and how an arm computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from ablate.design.trial_spec import Numerics
from ablate.trial.memory_format import laid_out
from ablate.trial.numerics import DTYPES
from ablate.trial.protocol import Place


def placer(numerics: Numerics, device: torch.device) -> Place:
    """Return what casts a floating tensor to the arm's precision and moves it to its device; others are moved only.

    A 4-d one gets the arm's memory format; one that is as the arm wants it is given back as it is.

    Cast on the CPU, so that every arm gets the same bits. The move copies the tensor as it is now, and the host does
    not wait for it: it goes by a page-locked copy.
    """
    precision, memory_format, on_cpu = DTYPES[numerics.precision], numerics.memory_format, device.type == "cpu"
    as_made = on_cpu and memory_format == "contiguous"

    def place(tensor: Tensor) -> Tensor:
        if as_made and tensor.dtype is precision:
            return tensor
        if tensor.is_floating_point():
            tensor = tensor.to(precision)
        tensor = laid_out(tensor, memory_format)
        if on_cpu:
            return tensor
        if not tensor.is_cpu or tensor.layout is not torch.strided or tensor.is_pinned():
            return tensor.to(device)
        return tensor.pin_memory().to(device, non_blocking=True)

    return place


def batch_placer(
    numerics: Numerics, device: torch.device, place: Place
) -> Callable[[Mapping[str, Tensor]], Mapping[str, Tensor]]:
    """Return what places every tensor of a batch by ``place``; where each is as the arm wants it, they come back.

    Asking a tensor for its type alone takes less time than a call of ``place`` for each.
    """
    precision = DTYPES[numerics.precision]
    may_stay = device.type == "cpu" and numerics.memory_format == "contiguous"

    def placed(tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        if may_stay:
            for tensor in tensors.values():
                dtype = tensor.dtype
                if dtype is not precision and dtype.is_floating_point:
                    break
            else:
                return tensors
        return {name: place(tensor) for name, tensor in tensors.items()}

    return placed
