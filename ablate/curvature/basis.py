"""Orthonormal rows of a Krylov space: more are added, none is ever moved or copied."""

from __future__ import annotations

import torch
from torch import Tensor

ROWS = 48
"""So many rows are allocated at a time: no moment holds more than one block to spare, or the basis twice."""


class Basis:
    """Rows (m, n) of float64 in blocks.

    Args:
        row: (n,) the first.
    """

    def __init__(self, row: Tensor) -> None:
        self._blocks: list[Tensor] = []
        self._count = 0
        self.add(row)

    def __len__(self) -> int:
        return self._count

    @property
    def dimension(self) -> int:
        """Length of a row."""
        return self._blocks[0].shape[1]

    @property
    def last(self) -> Tensor:
        """The row added last, (n,)."""
        return self._blocks[-1][(self._count - 1) % ROWS]

    def add(self, row: Tensor) -> None:
        """Add a row (n,)."""
        at = self._count
        if at % ROWS == 0:
            shape = min(ROWS, len(row) - at), len(row)
            self._blocks.append(torch.empty(shape, dtype=torch.float64, device=row.device))
        self._blocks[-1][at % ROWS] = row
        self._count += 1

    def along(self, vector: Tensor, count: int) -> Tensor:
        """Return a vector's components (count,) along the first rows."""
        return torch.cat([block @ vector for block in self._first(count)])

    def combined(self, weights: Tensor) -> Tensor:
        """Return the combination (..., n) of the first rows with weights (..., count)."""
        blocks = self._first(weights.shape[-1])
        parts = torch.split(weights, [len(block) for block in blocks], dim=-1)
        total = parts[0] @ blocks[0]
        for part, block in zip(parts[1:], blocks[1:], strict=True):
            total += part @ block
        return total

    def rows(self, count: int) -> Tensor:
        """Return the first rows, (count, n): a copy where there are many."""
        return torch.cat(self._first(count))

    def _first(self, count: int) -> list[Tensor]:
        return [block[: count - i * ROWS] for i, block in enumerate(self._blocks) if count > i * ROWS]
