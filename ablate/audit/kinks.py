"""Kinks: where a derivative jumps, so that rounding can change a gradient by a whole term, or not at all.

Simulated rounding alone could miss a jump that an arm's rounding met: each is a rare event. So a number that is nearer
to the jump than rounding reaches is put on a random side of it, and of several simulations about half meet the jump.
A number exactly at the jump stays there: it is a constant, or cut off, and every precision agrees on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ablate.audit.norms import rms

NEAR = 8.0
"""How far rounding reaches, in u times the root mean square of the tensor: a few roundings of numbers of usual size."""

_SIDES: dict[str, Callable[[Sequence[Any]], tuple[int, tuple[Any, ...]]]] = {
    "relu": lambda a: (0, (0.0,)),
    "leaky_relu_backward": lambda a: (1, (0.0,)),
    "_prelu_kernel_backward": lambda a: (1, (0.0,)),
    "hardtanh_backward": lambda a: (1, (a[2], a[3]) if len(a) > 3 else (-1.0, 1.0)),
    "hardsigmoid_backward": lambda a: (1, (-3.0, 3.0)),
    "softshrink_backward": lambda a: (1, (-a[2], a[2])),
    "sgn": lambda a: (0, (0.0,)),
    "sign": lambda a: (0, (0.0,)),
    "gt": lambda a: (0, (a[1],)),
    "ge": lambda a: (0, (a[1],)),
    "lt": lambda a: (0, (a[1],)),
    "le": lambda a: (0, (a[1],)),
}
"""Operation -> position of the argument whose side of a jump matters, and the jumps."""

_LARGEST = frozenset(("max", "min", "argmax", "argmin", "topk", "sort", "max_pool2d_with_indices"))
_LARGEST |= {"max_pool3d_with_indices", "adaptive_max_pool2d", "adaptive_max_pool3d"}

Uniform = Callable[[Tensor], Tensor]


def with_kinks(kind: str, args: tuple[Any, ...], in_place: bool, roundoff: float, seed: int, uniform: Uniform) -> Any:
    """Return the arguments of an operation with numbers near its jumps moved; the very arguments if there are none.

    Args:
        kind: the operation's name.
        args: its positional arguments.
        in_place: whether it writes to the first: then the numbers are moved there.
        roundoff: u.
        seed: of the simulation.
        uniform: tensor -> numbers from -1 to 1 of its shape.
    """
    if kind in _SIDES:
        try:
            place, jumps = _SIDES[kind](args)
        except IndexError:
            return args
        moved = _moved(args[place], jumps, roundoff, uniform)
    elif kind in _LARGEST and args and isinstance(args[0], Tensor):
        place, moved = 0, _reordered(args[0], roundoff, seed)
    else:
        return args
    if moved is None:
        return args
    if in_place and place == 0:
        args[0].copy_(moved)
        return args
    return (*args[:place], moved, *args[place + 1 :])


def _moved(x: Any, jumps: Sequence[Any], roundoff: float, uniform: Uniform) -> Tensor | None:
    if not isinstance(x, Tensor) or not x.is_floating_point() or x.numel() == 0:
        return None
    moved = None
    for jump in jumps:
        away = x - jump
        if away.shape != x.shape:
            return None
        reach = NEAR * roundoff * max(rms(x), rms(jump.to(x.dtype)) if isinstance(jump, Tensor) else abs(jump))
        near = (away.abs() < reach) & (away != 0)
        if bool(near.any()):
            moved = torch.where(near, jump + uniform(x) * reach, x if moved is None else moved)
    return moved


def _reordered(x: Tensor, roundoff: float, seed: int) -> Tensor | None:
    """Move each number by a function of it that is as good as random, so that equal numbers stay equal."""
    reach = NEAR * roundoff * rms(x) / 2 if x.is_floating_point() else 0.0
    if not 0 < reach < math.inf:
        return None
    return x + reach * torch.sin(x * (1e3 * (1 + seed) / reach))
