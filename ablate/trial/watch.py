"""Watches one batch for overwritten tensors and undeclared draws, and turns what was seen into audit rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

from ablate.audit.draws import CHECK, UndeclaredDraw, undeclared_draws
from ablate.audit.guard import SavedTensorGuard
from ablate.record.recorder import Recorder

MOST_ROWS = 100
"""A corrupted buffer can touch a thousand tensors of one batch; a reader needs the first ones and the number."""


@contextmanager
def watch(model: nn.Module | None, batch_index: int, recorder: Recorder) -> Iterator[SavedTensorGuard]:
    """Guard forward and backward inside the block; rows are written however it ends, a refused backward included.

    Every watched batch leaves one row ``clean`` that counts the tensors compared and found as they were, so that
    "no finding" can be told from "not looked at".
    """
    guard = SavedTensorGuard(model)
    try:
        with guard.batch(batch_index):
            yield guard
    finally:
        for row in _guard_rows(guard):
            recorder.audit(batch_index=batch_index, **row)


@contextmanager
def watch_draws(model: nn.Module | None, batch_index: int, recorder: Recorder, where: str) -> Iterator[None]:
    """Record draws from global generators inside the block; ``where`` names it, as ``batches()``."""
    with undeclared_draws(batch_index, model) as drawn:
        yield
    for row in _draw_rows(drawn, where):
        recorder.audit(batch_index=batch_index, **row)


def _guard_rows(guard: SavedTensorGuard) -> Iterator[dict[str, Any]]:
    unseen = "".join(f"; {count} not comparable: {reason}" for reason, count in sorted(guard.unseen.items()))
    yield {
        "check": "saved_tensors",
        "verdict": "clean",
        "count": guard.tensors_checked - guard.tensors_changed,
        "detail": f"{guard.tensors_saved} saved, {guard.tensors_never_used} never asked for by backward{unseen}",
    }
    yield from finding_rows(guard, since=0)


def finding_rows(guard: SavedTensorGuard, since: int) -> Iterator[dict[str, Any]]:
    """Return rows for findings from number ``since`` on; past ``MOST_ROWS`` of a batch they are only counted."""
    for finding in guard.findings[since:MOST_ROWS]:
        yield {
            "check": "saved_tensors",
            "verdict": "refused" if finding.version_moved else "overwritten",
            "count": 1,
            "shape": finding.shape,
            "dtype": finding.dtype,
            "version_moved": finding.version_moved,
            "role": finding.role,
            "near": finding.near,
            "source": finding.source,
            "detail": finding.detail,
        }
    if (rest := len(guard.findings) - max(since, MOST_ROWS)) > 0:
        yield {
            "check": "saved_tensors",
            "verdict": "overwritten",
            "count": rest,
            "detail": "further tensors, not listed",
        }


def _draw_rows(drawn: list[UndeclaredDraw], where: str) -> Iterator[dict[str, Any]]:
    for draw in drawn:
        near = ", ".join(draw.near) or f"global generator of {draw.generator}, in {where}"
        yield {"check": CHECK, "verdict": "drawn", "count": 1, "near": near, "detail": draw.detail}
