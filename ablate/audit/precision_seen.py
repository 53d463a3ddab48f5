"""The coarsest precision a step computes in: by the type of what it computes, and by how many bits that really has.

Autocast computes in bfloat16 inside a float32 model, and a program can round mantissas itself (as TF32 does in
hardware, where no tensor shows it). A tensor counts as shortened if it was computed from parameters, so is neither
data nor a mask, and none of at least ``DISTINCT`` different mantissas in it has more than ``SHORT`` significant bits;
of 24 numbers that were not shortened, all are as short with probability 2**-240.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from ablate.audit.narrow_noise import NARROW
from ablate.audit.nearby import here, source
from ablate.audit.operation import tensors
from ablate.audit.roundoff import name_of, shortened_name, unit_roundoff

DISTINCT = 24
SHORT = 14
LOOKED_AT = 4096
"""Elements of a tensor, evenly spaced."""

TENSORS = 400
"""Float32 and float64 tensors whose bits are counted, the first of a step; types are looked at for all."""


class PrecisionSeen(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Runs a step as it is and looks at each operation's computed inputs.

    Attributes:
        roundoff: the coarsest unit roundoff; 0 until an operation has used something computed from a parameter.
        name: the type of that roundoff, or ``tf32-like (11 bits)`` for shortened mantissas.
        where: the user's line that used it, ``file.py:12 in forward``; empty if unknown.
        dtype: the type that the numbers were held in, which decides their range: a narrow one, wherever one was.
        narrow: where that was; None if nowhere.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.roundoff = 0.0
        self.name = "none"
        self.where = ""
        self.dtype = torch.float32
        self.narrow: str | None = None
        self._counted = 0

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Look at the inputs and call the operation."""
        for t in tensors(list(args)):
            if t.is_floating_point() and t.numel() and _computed(t):
                self._look(t)
        return func(*args, **(kwargs or {}))

    def _look(self, t: Tensor) -> None:
        roundoff = unit_roundoff(t.dtype)
        name = name_of(roundoff, t.dtype)
        if t.dtype in (torch.float32, torch.float64) and self._counted < TENSORS:
            self._counted += 1
            narrow = t.detach().float()
            short = shortened(narrow) if t.dtype is torch.float32 or torch.equal(narrow.double(), t) else 0.0
            if short:
                roundoff, name = short, shortened_name(short)
        if t.dtype in NARROW and self.narrow is None:
            self.dtype, self.narrow = t.dtype, source(here())
        if roundoff > self.roundoff:
            self.roundoff, self.name, self.where = roundoff, name, source(here())
            self.dtype = self.dtype if self.narrow is not None else t.dtype


def _computed(t: Tensor) -> bool:
    """Say whether it was computed from a parameter; one seen from the side (a transposed weight) was not."""
    base = t._base if t._is_view() else t
    return t.grad_fn is not None and base is not None and base.grad_fn is not None


def shortened(t: Tensor) -> float:
    """Return the unit roundoff of a float32 tensor with short mantissas; 0 if one is long, or too few differ."""
    flat = t.detach().reshape(-1)
    sample = flat[:: max(1, -(-flat.numel() // LOOKED_AT))].cpu().contiguous()
    mantissas = sample[torch.isfinite(sample)].view(torch.int32) & 0x7FFFFF
    if not mantissas.numel():
        return 0.0
    stored = torch.bitwise_and(mantissas, -mantissas)
    lowest = int(stored[mantissas != 0].min()) if bool((mantissas != 0).any()) else 0
    if lowest == 0:
        return 0.0
    bits = 24 - (lowest.bit_length() - 1)
    if bits > SHORT or torch.unique(mantissas).numel() < DISTINCT:
        return 0.0
    return 2.0**-bits
