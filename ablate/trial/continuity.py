"""Whether the state that a batch starts from is the one that the batch before it left, bit for bit.

What comes between two steps may touch nothing that is trained: the next batch being made, a look at the model, a
checkpoint. A loader that writes into the carry, or a hook that nudges a weight there, is seen here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor

from ablate.trial.fingerprint import tensors_hash
from ablate.trial.step import Stepper

SCOPES = ("model", "optimisers", "carries")


class Continuity:
    """Remembers the state after one batch until the next begins."""

    def __init__(self) -> None:
        self._left: dict[str, int] = {}
        self._batch = -1

    def leave(self, stepper: Stepper, batch_index: int) -> None:
        """Remember the state after ``batch_index``."""
        self._left, self._batch = _hashes(stepper), batch_index

    def enter(self, stepper: Stepper, batch_index: int) -> dict[str, Any] | None:
        """Compare the state before ``batch_index``; return an audit's columns, or None without the batch before it."""
        left, self._left = self._left, {}
        if not left or self._batch != batch_index - 1:
            return None
        now = _hashes(stepper)
        changed = sorted(name for name in left.keys() | now.keys() if left.get(name) != now.get(name))
        row: dict[str, Any] = {"check": "continuity", "verdict": "bug" if changed else "clean", "quantity": "state"}
        row["count"] = len(changed) or len(now)
        if changed:
            row["name"] = changed[0]
            row["detail"] = (
                f"{changed[0]} changed between the end of batch {self._batch} and the start of batch {batch_index}, "
                f"outside every step ({len(changed)} of {len(now)} tensors)"
            )
        return row


def _hashes(stepper: Stepper) -> dict[str, int]:
    state = stepper.collect()
    return {name: tensors_hash([(name, tensor)]) for scope in SCOPES for name, tensor in _tensors(scope, state[scope])}


def _tensors(name: str, value: Any) -> Iterator[tuple[str, Tensor]]:
    if isinstance(value, Tensor):
        yield name, value.to_dense() if value.is_sparse else value
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from _tensors(f"{name}.{key}", one)
    elif isinstance(value, list | tuple):
        for place, one in enumerate(value):
            yield from _tensors(f"{name}.{place}", one)
