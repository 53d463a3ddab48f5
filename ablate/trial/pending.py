"""Batches of a GPU arm whose losses are still on the device: read together, so that the host waits for it rarely.

A row is not acknowledged before it is written, which happens at the latest ``CAPACITY`` batches or ``AT_MOST_S``
seconds after its batch (asked at each batch), before and after every watched batch, before a checkpoint and at the end.
On a CPU every batch is written at once.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

CAPACITY = 64
"""How many batches share the wait for one read-back."""

AT_MOST_S = 1.0
"""What a killed trial may lose of its last batches, and how old the last recorded batch may look to a watcher."""

Value = float | Tensor
N = TypeVar("N", float, Value)


class Row(NamedTuple, Generic[N]):
    """One batch that ran; a tuple, since one is made for every batch. Its numbers are plain, or still on the device.

    Attributes:
        batch_index: which one.
        losses: name -> loss of each player, in order: ``loss``, then ``loss_<player>``.
        metrics: further numbers.
        duration_s: seconds the host spent on it.
        order: hash of the data order up to and with it.
        content: hash of its contents, if they were hashed.
        draws: hash of what had been drawn by then.
    """

    batch_index: int
    losses: Mapping[str, N]
    metrics: Mapping[str, N]
    duration_s: float
    order: int | None
    content: int | None
    draws: str


def detached(value: Tensor) -> Tensor:
    """Return a copy of a scalar in float64 that stays on its device; what becomes of ``value`` later changes nothing.

    Raises:
        RuntimeError: if it has more than one element.
    """
    return value.detach().reshape(()).to(torch.float64, copy=True)


def number(value: Value, deferred: bool) -> Value:
    """Return a metric as a number, or where losses are ``deferred`` as a copy of one that is on the device."""
    if type(value) is float or not isinstance(value, Tensor):  # asking torch's own class takes its time
        return value
    return detached(value) if deferred and not value.is_cpu else value.item()


def known_not_finite(values: Iterable[Value]) -> bool:
    """Say whether one of the values is not finite, of those that are not on the device still."""
    return any(isinstance(value, float) and not math.isfinite(value) for value in values)


def until_not_finite(losses: Mapping[str, float]) -> dict[str, float]:
    """Return losses up to the first that is not finite: on a CPU the batch ends there, before the next player's."""
    kept: dict[str, float] = {}
    for name, value in losses.items():
        kept[name] = value
        if not math.isfinite(value):
            break
    return kept


class Pending:
    """The rows not yet written, in order."""

    def __init__(self) -> None:
        self._rows: list[Row[Value]] = []
        self._since = 0.0

    def add(self, row: Row[Value]) -> None:
        """Take a row."""
        if not self._rows:
            self._since = time.monotonic()
        self._rows.append(row)

    @property
    def due(self) -> bool:
        """Whether it is time to write them."""
        return len(self._rows) >= CAPACITY or time.monotonic() - self._since >= AT_MOST_S

    def take(self) -> Iterator[Row[float]]:
        """Empty the buffer and return its rows with plain numbers, waiting for the device once.

        The host's time for a batch says little while the device lags behind, so rows read together share the whole
        time, the wait included, in equal parts.
        """
        rows, self._rows = self._rows, []
        waited = time.perf_counter()
        on_device = [v for row in rows for v in (*row.losses.values(), *row.metrics.values()) if isinstance(v, Tensor)]
        numbers = iter(torch.stack(on_device).tolist() if on_device else ())
        waited = time.perf_counter() - waited
        shared = len(rows) > 1 or on_device
        duration = (sum(row.duration_s for row in rows) + waited) / len(rows) if rows else 0.0
        for row in rows:
            yield Row(
                row.batch_index,
                losses={name: next(numbers) if isinstance(v, Tensor) else v for name, v in row.losses.items()},
                metrics={name: next(numbers) if isinstance(v, Tensor) else v for name, v in row.metrics.items()},
                duration_s=duration if shared else row.duration_s,
                order=row.order,
                content=row.content,
                draws=row.draws,
            )
