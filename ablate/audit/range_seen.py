"""Whether a float64 step holds numbers that a narrower type cannot: an innocent reason for an infinity or NaN there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ablate.audit.operation import computed


class RangeSeen(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Runs a step as it is and notes the first result outside the range of ``dtype``.

    Attributes:
        beyond: the operation and its result in words; empty if all were in range.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.beyond = ""
        self._largest = float(torch.finfo(dtype).max)
        self._smallest = float(torch.finfo(dtype).smallest_normal)

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call the operation and look at its results until one is out of range."""
        result = func(*args, **(kwargs or {}))
        if not self.beyond and not str(func).startswith(("aten.empty", "aten.new_empty")):
            for t in computed(func, args, kwargs or {}, result):
                sizes = t.detach().abs()
                finite = sizes[torch.isfinite(sizes) & (sizes > 0)]
                if not finite.numel():
                    continue
                if float(finite.max()) > self._largest:
                    self.beyond = f"{func} gives {float(finite.max()):.3g}"
                elif float(finite.min()) < self._smallest:
                    self.beyond = f"{func} gives {float(finite.min()):.3g}"
        return result
