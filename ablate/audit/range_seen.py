"""Whether a float64 step holds numbers that a narrower type cannot: an innocent reason for an infinity or NaN there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ablate.audit.operation import computed


class RangeSeen(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Runs a step as it is and notes the first results outside the range of ``dtype``.

    Attributes:
        overflow: the operation and its result above the largest number, in words; empty if there was none.
        underflow: likewise below the smallest normal number, 0 apart.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.overflow = ""
        self.underflow = ""
        self._largest = float(torch.finfo(dtype).max)
        self._smallest = float(torch.finfo(dtype).smallest_normal)

    @property
    def beyond(self) -> str:
        """What was out of range at either end; empty if nothing was."""
        return self.overflow or self.underflow

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call the operation and look at its results."""
        result = func(*args, **(kwargs or {}))
        if not str(func).startswith(("aten.empty", "aten.new_empty")):
            for t in computed(func, args, kwargs or {}, result):
                plain = t.detach()
                sizes = (plain._values() if plain.is_sparse else plain).abs()
                finite = sizes[torch.isfinite(sizes) & (sizes > 0)]
                if not finite.numel():
                    continue
                largest, smallest = float(finite.max()), float(finite.min())
                if largest > self._largest and not self.overflow:
                    self.overflow = f"{func} gives {largest:.3g}"
                if smallest < self._smallest and not self.underflow:
                    self.underflow = f"{func} gives {smallest:.3g}"
        return result
