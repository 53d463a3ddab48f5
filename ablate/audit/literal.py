"""Values as Python expressions, with tensors taken out: what a written program needs to have them again."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ablate.audit.once import once

TINY = 8
"""Numbers up to which a tensor is written out."""


class Literals:
    """Turns values into expressions; each tensor becomes ``x["t0"]``, ``x["t1"]`` and is kept for a file.

    Attributes:
        tensors: key -> tensor, as it was handed in.
    """

    def __init__(self, variable: str, prefix: str = "") -> None:
        self.tensors: dict[str, Tensor] = {}
        self._variable = variable
        self._prefix = prefix

    def of(self, value: Any) -> str:
        """Return an expression that evaluates to the value.

        Raises:
            ValueError: it is of a kind that no expression stands for.
        """
        if isinstance(value, Tensor):
            if value.layout is not torch.strided:
                raise ValueError(f"a tensor of layout {value.layout} cannot be written to a file")
            key = f"{self._prefix}t{len(self.tensors)}"
            self.tensors[key] = value.detach()
            return f"{self._variable}[{key!r}]"
        if value is None or isinstance(value, bool | int | str):
            return repr(value)
        if isinstance(value, float):
            return repr(value) if math.isfinite(value) else f"float({str(value)!r})"
        if isinstance(value, torch.dtype | torch.layout | torch.memory_format):
            return str(value)
        if isinstance(value, torch.device):
            return f"torch.device({str(value)!r})"
        if isinstance(value, tuple):
            return f"({''.join(self.of(one) + ', ' for one in value)})"
        if isinstance(value, list):
            return f"[{', '.join(self.of(one) for one in value)}]"
        if isinstance(value, dict):
            return f"{{{', '.join(f'{self.of(key)}: {self.of(one)}' for key, one in value.items())}}}"
        raise ValueError(f"a value of type {type(value).__name__} cannot be written as a Python expression")

    def inline(self) -> dict[str, str]:
        """Return key -> expression of the tensors that are written out: contiguous, on the CPU, and tiny."""
        return {
            key: f"torch.tensor({self._numbers(t.tolist())}, dtype={t.dtype})"
            for key, t in self.tensors.items()
            if _tiny(t)
        }

    def stored(self) -> dict[str, Tensor]:
        """Return key -> contiguous copy on the CPU of the tensors that need a file; what is expanded is there once."""
        return {key: once(t).cpu().contiguous().clone() for key, t in self.tensors.items() if not _tiny(t)}

    def layouts(self) -> dict[str, str]:
        """Return key -> expression that gives a stored tensor its layout in memory again, where it had another."""
        found = {}
        for key, t in self.tensors.items():
            it = f"{self._variable}[{key!r}]"
            single = once(t)
            if not _tiny(t) and not single.is_contiguous():
                it = f"torch.empty_strided({tuple(single.shape)}, {single.stride()}, dtype={t.dtype}).copy_({it})"
            if not _tiny(t) and single.shape != t.shape:
                it = f"{it}.expand({tuple(t.shape)})"
            if it != f"{self._variable}[{key!r}]":
                found[key] = it
        return found

    def _numbers(self, value: Any) -> str:
        return f"[{', '.join(self._numbers(one) for one in value)}]" if isinstance(value, list) else self.of(value)


def _tiny(t: Tensor) -> bool:
    return t.numel() <= TINY and t.is_contiguous() and not t.is_complex()
