"""The guards of a trial: one for each batch that is watched, kept to its end, since a backward may run late."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from ablate.audit.guard import SavedTensorGuard
from ablate.record.recorder import Recorder
from ablate.trial.watch import finding_rows, watch


class Watches:
    """The batches of one trial that were watched, and what was found in each."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._last: SavedTensorGuard | None = None
        self._guards: dict[int, SavedTensorGuard] = {}
        self._told: dict[int, int] = {}  # how many findings of each guard are recorded

    @contextmanager
    def batch(self, model: nn.Module | None, batch_index: int) -> Iterator[None]:
        """Watch forward and backward inside the block; findings become audit rows."""
        with watch(model, batch_index, self._recorder) as guard:
            self._last = self._guards[batch_index] = guard
            yield
        self._told[batch_index] = len(guard.findings)

    def name_after(self, model: nn.Module) -> None:
        """Name tensors after a model that was made while a batch is watched, as a function trainable does."""
        if self._last is not None:
            self._last.name_after(model)

    def overwritten(self, batch_index: int) -> bool:
        """Say whether a saved tensor of that batch was found overwritten."""
        guard = self._guards.get(batch_index)
        return guard is not None and bool(guard.findings)

    def late_findings(self) -> None:
        """Record what guards found after their batch: a backward that ran later, over a graph kept from then."""
        for index, guard in self._guards.items():
            for row in finding_rows(guard, since=self._told.get(index, 0)):
                self._recorder.audit(batch_index=index, **row)
