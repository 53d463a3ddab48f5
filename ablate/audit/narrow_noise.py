"""Simulated rounding in a type with few exponents: what is too small for it is rounded to its smallest steps, or to 0.

In a type with unit roundoff u and smallest subnormal number e (float16: 2**-24), a correct operation gives
x (1 + d) + n with |d| <= u and |n| <= e / 2 (IEEE 754-2019, section 7.5; Higham, Accuracy and Stability of Numerical
Algorithms (2002), section 2.1). Unlike d, n is no noise: all numbers below e / 2 become 0 in every run and on every
machine, so that the errors of a sum of them add up. They are therefore not drawn but made, as the type makes them:
below its smallest normal number, e / (2 u), each result is rounded to a multiple of e.

bfloat16 and float32 reach down to 1e-40 and need none of this.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ablate.audit.operation import computed
from ablate.audit.rounding_noise import RoundingNoise

NARROW = (torch.float16,)


def smallest_step(dtype: torch.dtype) -> float:
    """Return the smallest subnormal number: 2**-24 for float16."""
    limits = torch.finfo(dtype)
    return float(limits.smallest_normal * limits.eps)


def rounding_noise(roundoff: float, seed: int, held_in: torch.dtype) -> RoundingNoise:
    """Return the simulation of rounding in arithmetic whose numbers have the range of ``held_in``."""
    return NarrowNoise(roundoff, seed, held_in) if held_in in NARROW else RoundingNoise(roundoff, seed)


class NarrowNoise(RoundingNoise):  # type: ignore[no-untyped-call]
    """Runs a float64 step as ``RoundingNoise`` does, and rounds small results to the steps of a type.

    Args:
        roundoff: see ``RoundingNoise``.
        seed: see ``RoundingNoise``.
        held_in: the type.

    Attributes:
        narrow: whether results have the type's range; an optimiser's, whose weights are wider, do not.
    """

    def __init__(self, roundoff: float, seed: int, held_in: torch.dtype) -> None:
        super().__init__(roundoff, seed)
        self.narrow = True
        self._step = smallest_step(held_in)
        self._normal = float(torch.finfo(held_in).smallest_normal)

    def _rounded(self, func: Callable[..., Any], kind: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = super()._rounded(func, kind, args, kwargs)
        for t in computed(func, args, kwargs, result) if self.narrow else ():
            plain = t._values() if t.is_sparse else t
            if not plain.is_complex():
                plain.copy_(torch.where(plain.abs() < self._normal, (plain / self._step).round() * self._step, plain))
        return result
