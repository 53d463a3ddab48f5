"""Attention as its matrix products and softmax: their lengths and rounding are known, unlike a fused kernel's."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Self

from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode


class PlainAttention(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A dispatch mode under which attention runs unfused; it may be entered again inside itself."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._entered: list[AbstractContextManager[Any]] = []

    def __enter__(self) -> Self:
        self._entered.append(sdpa_kernel(SDPBackend.MATH))
        self._entered[-1].__enter__()
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        self._entered.pop().__exit__(*error)
