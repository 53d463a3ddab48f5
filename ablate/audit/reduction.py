"""How long the longest sum of a step is, measured along the float64 reference.

A result that is added to a result is one rounding higher: a gradient accumulated over the time steps of a recurrent
network counts its own sum's terms and one for each step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from ablate.audit.operation import RESULTS_ADDED, computed, name, tensors, terms
from ablate.audit.plain_attention import PlainAttention

_KEPT = frozenset(("clone", "detach", "alias", "_to_copy", "copy", "contiguous", "_unsafe_view"))


class ReductionLength(PlainAttention):  # type: ignore[no-untyped-call]
    """Runs a step as it is and notes the height of the highest summation tree.

    Attributes:
        longest: terms of the longest sum, at least 1.
        operation: the operation that made it, ``aten.mm.default``; empty if nothing was summed.
    """

    def __init__(self) -> None:
        super().__init__()
        self.longest = 1
        self.operation = ""
        # address of a storage -> height of what was last computed there; an address in use is always set anew by the
        # operation that allocates it
        self._heights: dict[int, int] = {}

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call the operation and note its terms."""
        kwargs = kwargs or {}
        kind = name(func)
        before = self._before(kind, args)
        result = func(*args, **kwargs)
        made = computed(func, args, kwargs, result)
        if made:
            if kind in RESULTS_ADDED:
                height = before + 1
            else:
                height = before if kind in _KEPT else terms(func, args, kwargs, made)
            for t in made:
                self._heights[_address(t)] = height
            if height > self.longest:
                self.longest, self.operation = height, str(func)
        return result

    def _before(self, kind: str, args: tuple[Any, ...]) -> int:
        """Height of the inputs, where the operation adds to them or hands them on."""
        if kind not in _KEPT and kind not in RESULTS_ADDED:
            return 1
        return max((self._heights.get(_address(t), 1) for t in tensors(list(args))), default=1)


def _address(t: Tensor) -> int:
    try:
        return t.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):  # sparse and other layouts have no storage
        return 0
