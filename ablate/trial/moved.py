"""Which machines computed a trial's batches: kept in its checkpoint, told in its provenance when there are several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Span = tuple[str, int]
"""A machine, and the number of batches recorded when it left off."""


def machine_of(columns: Mapping[str, Any]) -> str:
    """Return a machine in words: host, processor, instruction set, GPU.

    Args:
        columns: of ``trials``, as far as they are known.
    """
    kind = [columns.get(name) for name in ("cpu_model", "capability", "gpu")]
    return f"{columns['host']} ({', '.join(str(part) for part in kind if part)})"


def continued(earlier: Sequence[Span], machine: str, batches: int) -> tuple[Span, ...]:
    """Add what a machine computed to what was computed before it; the same machine twice in a row is one."""
    before = [(name, until) for name, until in earlier if until < batches]
    if before and before[-1][0] == machine:
        before.pop()
    return (*before, (machine, batches))


def moved_from(earlier: Sequence[Span], machine: str) -> str | None:
    """Return which other machines computed the batches that were taken over, in words; None if none did."""
    if all(name == machine for name, _ in earlier):
        return None
    return "; ".join(f"{name} to batch {until - 1}" for name, until in earlier)
