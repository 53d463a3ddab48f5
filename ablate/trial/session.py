"""What every batch goes through, whoever owns the loop: hashed, placed, watched, recorded."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from torch import Tensor, nn

from ablate.audit.guard import SavedTensorGuard
from ablate.errors import AblateError, Problem
from ablate.record.paths import StorePaths
from ablate.record.recorder import Recorder
from ablate.trial.draw import Draw
from ablate.trial.fingerprint import OrderChain, content_hash, model_hash, one_ulp
from ablate.trial.numerics import DTYPES, ArmNotInEffect
from ablate.trial.protocol import Batch
from ablate.trial.task import TrialTask
from ablate.trial.watch import finding_rows, watch
from ablate.trial.weights import restore, seed_global_generators


class Diverged(Exception):
    """The loss of a batch is not finite; the batch is recorded and the trial ends."""


class TrainableError(AblateError):
    """The trainable broke its contract: message names batch, what it gave, what is allowed."""


class Session:
    """The recording side of one trial. ``batch_index`` is the batch in hand, from 0."""

    def __init__(self, task: TrialTask, recorder: Recorder) -> None:
        self.task = task
        self.spec = task.spec
        self.recorder = recorder
        self.draw = Draw(self.spec.study, self.spec.block)
        self.chain = OrderChain(self.draw)
        self.batch_index = 0
        self.model: nn.Module | None = None
        self.columns: dict[str, str | None] = {"initial_hash": None, "perturbation_hash": None}
        self._guard: SavedTensorGuard | None = None
        self._guards: dict[int, SavedTensorGuard] = {}
        self._told: dict[int, int] = {}  # how many findings of each guard are recorded
        self._order: int | None = None
        self._content: int | None = None
        self._began = time.perf_counter()
        seed_global_generators(self.spec.study, self.spec.block)

    def place(self, tensor: Tensor) -> Tensor:
        """Cast a floating tensor to the arm's precision and move it to its device; others are moved only."""
        return tensor.to(DTYPES[self.spec.numerics.precision]) if tensor.is_floating_point() else tensor

    def adopt(self, model: nn.Module) -> nn.Module:
        """Give ``model`` the block's initial weights, then the arm's precision and declared perturbation, in place."""
        if self.task.weights is not None:
            restore(model, StorePaths(Path(self.task.root)).initial_weights(self.task.weights))
        self.columns["initial_hash"] = model_hash(model)
        model.to(DTYPES[self.spec.numerics.precision])
        if self.spec.numerics.perturb == "one-ulp":
            one_ulp(sorted(model.named_parameters()), Draw(self.spec.study, self.spec.block))
            self.columns["perturbation_hash"] = model_hash(model)
        precision = DTYPES[self.spec.numerics.precision]
        wrong = [name for name, p in model.named_parameters() if p.is_floating_point() and p.dtype != precision]
        if wrong:
            raise ArmNotInEffect(Problem("precision", f"asked for {precision}, parameter {wrong[0]!r} has another"))
        self.model = model
        if self._guard is not None:  # a function trainable makes its model inside its first batch
            self._guard.name_after(model)
        return model

    def receive(self, batch: Batch) -> Batch:
        """Hash a batch as the trainable made it, then return it placed.

        Every batch's index list enters the order hash; contents are hashed on watched batches only, since hashing
        401 kB costs as much as a small model's step.
        """
        if not isinstance(batch, Batch):
            raise TrainableError(
                Problem(
                    f"batch {self.batch_index}",
                    f"batches() gave a {type(batch).__name__}",
                    "ablate.trial.protocol.Batch",
                )
            )
        self._began = time.perf_counter()
        self._order = self.chain.add(batch)
        self._content = content_hash(batch.tensors) if self.spec.guard.covers(self.batch_index) else None
        return Batch(batch.index, {name: self.place(tensor) for name, tensor in batch.tensors.items()})

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Watch forward and backward of the batch in hand, if the plan covers it; findings become audit rows."""
        if not self.spec.guard.covers(self.batch_index):
            yield
            return
        with watch(self.model, self.batch_index, self.recorder) as self._guard:
            self._guards[self.batch_index] = self._guard
            yield
        self._told[self.batch_index] = len(self._guard.findings)

    def late_findings(self) -> None:
        """Record what guards found after their batch: a backward that ran later, over a graph kept from then."""
        for index, guard in self._guards.items():
            for row in finding_rows(guard, since=self._told.get(index, 0)):
                self.recorder.audit(batch_index=index, **row)

    def record(self, loss: float, metrics: Mapping[str, float | Tensor], diverged: bool = False) -> None:
        """Acknowledge the batch in hand and go to the next.

        Raises:
            Diverged: after recording, if the loss is not finite or the caller says so of another player's.
        """
        diverged = diverged or not math.isfinite(loss)
        duration = time.perf_counter() - self._began
        last = self.batch_index == self.spec.batches - 1
        shown = self.spec.guard.covers(self.batch_index) or last or diverged
        self.recorder.record(
            self.batch_index,
            loss,
            duration,
            {name: value.item() if isinstance(value, Tensor) else value for name, value in metrics.items()},
            order_hash=self._order if shown else None,
            content_hash=self._content,
        )
        self._order = self._content = None
        if diverged:
            raise Diverged
        self.batch_index += 1
        self._began = time.perf_counter()

    def final_columns(self) -> dict[str, object]:
        """Return the columns of ``trials`` that prove the pairing: hashes of weights, data, order and draws."""
        return {
            **self.columns,
            "data_hash": self.task.data_hash,
            "draw_hash": self.chain.draws(),
        }


def scalar(loss: object, batch_index: int) -> Tensor:
    """Return ``loss`` if it is a scalar tensor.

    Raises:
        TrainableError: naming what it is.
    """
    if isinstance(loss, Tensor) and loss.numel() == 1:
        return loss
    what = f"shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else f"a {type(loss).__name__}"
    raise TrainableError(Problem(f"batch {batch_index}", f"the loss is {what}", "a tensor with one element"))
