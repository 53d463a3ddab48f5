"""Faults that a setting plants in the small trainables: in the model, its optimiser, its loss or between batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ablate.trial.protocol import Player

COMMON = ("backward", "scaled", "sign")
"""Faults that the slope check must find where all arms have them."""


def planted(model: nn.Module) -> tuple[str, nn.Parameter]:
    """The parameter that a fault is planted in: the first matrix."""
    return next((name, p) for name, p in model.named_parameters() if p.dim() > 1)


def plant(model: nn.Module, fault: str, size: float) -> None:
    """Plant a fault in the gradient of one layer."""
    factor = {"scaled": 1 + size, "sign": -1.0}.get(fault)
    if factor is not None:
        planted(model)[1].register_hook(lambda gradient: gradient * factor)


def nudge(model: nn.Module, size: float) -> None:
    """Move a weight where nobody looks."""
    with torch.no_grad():
        planted(model)[1].view(-1)[0] += size


def players_with(make: Any, parameters: dict[str, nn.Parameter], fault: str, size: float) -> list[Player]:
    """One player, whose optimiser steps the first matrix at a rate of its own, or decays weights, if it is faulty."""
    rate = 0.02
    first = next(name for name, p in parameters.items() if p.dim() > 1)
    groups = [
        {"params": [p for name, p in parameters.items() if name == first], "lr": rate * (1 + size * (fault == "rate"))},
        {"params": [p for name, p in parameters.items() if name != first]},
    ]
    decay = {"weight_decay": size} if fault == "decay" else {}
    return [Player("all", parameters, make(groups, lr=rate, **decay))]


def target(y: Tensor, fault: str) -> Tensor:
    """The target; a copy of its own if it is to be overwritten."""
    return y.clone() if fault == "overwritten" else y


class _WrongBackward(torch.autograd.Function):
    """Passes its input on, and a gradient that is too large."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, size: float) -> Tensor:
        ctx.size = size
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient * (1 + ctx.size), None


class _Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        return 2 * gradient


class _Straight(torch.autograd.Function):
    """Signs, and a gradient as if there were none."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.sign()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        return gradient


def _half_detached(x: Tensor, size: float) -> Tensor:
    return size * x.detach() + (1 - size) * x


def _cast(dtype: torch.dtype) -> Callable[[Tensor, float], Tensor]:
    return lambda x, size: x.to(dtype).mul(1.1).to(x.dtype)


Passes: dict[str, Callable[[Tensor, float], Tensor]] = {
    "float32 inside": _cast(torch.float32),
    "float16 inside": _cast(torch.float16),
    "float16 inside, twice the gradient": lambda x, size: _cast(torch.float16)(_Twice.apply(x), size),
    "bfloat16 inside": _cast(torch.bfloat16),
    "backward": _WrongBackward.apply,  # type: ignore[dict-item]
    "straight through": lambda x, size: x + size * _Straight.apply(x),
    "detached": _half_detached,
    "data": lambda x, size: size * x.data + (1 - size) * x,
}
"""What the prediction goes through, by fault."""


class _Truncated(torch.autograd.Function):
    """Cuts mantissas, as TF32 does with the inputs of a matrix product; the gradient is passed on."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, bits: int) -> Tensor:
        kept = x.to(torch.float32).contiguous().view(torch.int32) & ~((1 << (23 - bits)) - 1)
        return kept.view(torch.float32).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient, None


def truncated(x: Tensor, bits: int) -> Tensor:
    """Return ``x`` with so many bits of mantissa, in float32's range whatever its type."""
    return _Truncated.apply(x, bits)  # type: ignore[no-any-return]
