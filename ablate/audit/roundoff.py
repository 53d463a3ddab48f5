"""Unit roundoff: half the distance between 1 and the next number, the largest relative error of one rounding.

Higham, Accuracy and Stability of Numerical Algorithms (2002), section 2.1. With t significant bits, u = 2**-t.
"""

from __future__ import annotations

import math

import torch

TF32 = 2.0**-11
"""NVIDIA's TF32: the range of float32 and the 11 significant bits of float16."""

FLOAT32 = 2.0**-24

FLOAT64 = 2.0**-53

_NAMES = {FLOAT64: "float64", FLOAT32: "float32", TF32: "tf32", 2.0**-8: "bfloat16"}


def unit_roundoff(dtype: torch.dtype) -> float:
    """Return u of a floating or complex type: 2**-24 for float32, 2**-53 float64, 2**-11 float16, 2**-8 bfloat16.

    Raises:
        TypeError: if the type is neither floating nor complex.
    """
    return float(torch.finfo(dtype).eps) / 2


def name_of(roundoff: float, held_in: torch.dtype | None = None) -> str:
    """Return the type with this unit roundoff in words; ``tf32-like (13 bits)`` for one that no type has.

    Args:
        roundoff: float16 and tf32 have the same.
        held_in: type of the numbers; where it has this roundoff, its name is returned.
    """
    if held_in is not None and unit_roundoff(held_in) == roundoff:
        return str(held_in).removeprefix("torch.")
    return _NAMES.get(roundoff) or shortened_name(roundoff)


def shortened_name(roundoff: float) -> str:
    """Return words for numbers whose mantissas are shorter than their type's: ``tf32-like (13 bits)``."""
    return f"tf32-like ({round(-math.log2(roundoff))} bits)"
