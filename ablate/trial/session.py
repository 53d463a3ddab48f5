"""What every batch goes through, whoever owns the loop: hashed, placed, watched, recorded."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ablate.audit.guard import SavedTensorGuard
from ablate.errors import Problem
from ablate.record.paths import StorePaths
from ablate.record.recorder import Recorder
from ablate.trial.compiled import check_compiled
from ablate.trial.contract import TrainableError, named, scalar
from ablate.trial.draw import Draw
from ablate.trial.effect import ArmNotInEffect
from ablate.trial.fingerprint import OrderChain, content_hash, draws_hash, model_hash, one_ulp
from ablate.trial.gpu_use import GpuSampler
from ablate.trial.memory_format import lay_out
from ablate.trial.numerics import DTYPES
from ablate.trial.pending import Pending, Row, Value, detached, known_not_finite, number, until_not_finite
from ablate.trial.permuted import STREAM as PERMUTE
from ablate.trial.permuted import permuted
from ablate.trial.place import placer
from ablate.trial.protocol import Batch
from ablate.trial.ranks import Ranks
from ablate.trial.sketch import keep_sketch
from ablate.trial.task import TrialTask
from ablate.trial.watch import finding_rows, watch, watch_draws
from ablate.trial.weights import restore, seed_global_generators

NOTHING = contextlib.nullcontext()
"""What a batch that is not watched runs under."""


class Diverged(Exception):
    """The loss of a batch is not finite; the batch is recorded and the trial ends."""


class Session:
    """The recording side of one trial.

    Attributes:
        batch_index: the batch in hand, from 0.
        draw: the streams of the study, equal in every arm.
        declared: the streams of what the arm declares to change (permuted rows, noise), which have a hash of their own.
        device: where the arm computes.
        place: brings a tensor there, in the arm's precision and memory format.
        deferred: losses stay on the device for a while (a GPU arm); on a CPU each is read and recorded at once.
        ranks: the workers of the trial; None where there is one.
    """

    def __init__(self, task: TrialTask, recorder: Recorder, ranks: Ranks | None = None) -> None:
        self.task = task
        self.ranks = ranks
        self.spec = task.spec
        self._follows = task.follows
        self.recorder = recorder
        self.draw = Draw(self.spec.study, self.spec.block)
        self.declared = Draw(self.spec.study, self.spec.block)
        self.chain = OrderChain(self.draw)
        self.go_to(0)
        self.device = torch.device(self.spec.numerics.device)
        self.deferred = self.device.type == "cuda"
        self._permutes = self.spec.numerics.perturb == "permute-rows"
        self.place = placer(self.spec.numerics, self.device)
        self.model: nn.Module | None = None
        self._pending = Pending()
        self._gpu = GpuSampler() if self.deferred else None
        self._draws_at_end: str | None = None
        self._began_well = False
        self.columns: dict[str, str | None] = {"initial_hash": None, "perturbation_hash": None}
        self._guard: SavedTensorGuard | None = None
        self._guards: dict[int, SavedTensorGuard] = {}
        self._told: dict[int, int] = {}  # how many findings of each guard are recorded
        self._order: int | None = None
        self._content: int | None = None
        self._began = time.perf_counter()
        seed_global_generators(self.spec.study, self.spec.block)

    def go_to(self, batch_index: int) -> None:
        """Take this batch in hand."""
        self.batch_index = batch_index
        self._planned = self.spec.guard.covers(batch_index)

    def adopt(self, model: nn.Module) -> nn.Module:
        """Give ``model`` the block's initial weights, the arm's precision, perturbation, device and layout, in place.

        Weights are hashed and perturbed on the CPU, then moved.
        """
        if self.task.weights is not None and not self.task.follows:
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
        self.model = model.to(self.device)
        if self.ranks is not None:  # a follower may be where the store is not
            self.ranks.start_alike(model)
        lay_out(model, self.spec.numerics.memory_format)
        if self._guard is not None:  # a function trainable makes its model inside its first batch
            self._guard.name_after(model)
        with self.uncounted():
            self._sketch(-1)
        return model

    def receive(self, batch: Batch) -> Batch:
        """Hash a batch as the trainable made it, then return it placed, its rows permuted if the arm declares that."""
        batch = self.hashed(batch)
        return Batch(batch.index, self.placed(batch))

    def hashed(self, batch: Batch) -> Batch:
        """Hash a batch as the trainable made it, and return it, its rows permuted if the arm declares that.

        Every batch's index list enters the order hash; contents are hashed on watched batches only, since hashing
        401 kB costs as much as a small model's step.
        """
        if not isinstance(batch, Batch):
            found = f"batches() gave a {type(batch).__name__}"
            raise TrainableError(Problem(f"batch {self.batch_index}", found, "ablate.trial.protocol.Batch"))
        self._began = time.perf_counter()
        self._order = self.chain.add(batch)
        self._content = content_hash(batch.tensors) if self._planned else None
        if self.ranks is not None:
            self.ranks.agree(self.batch_index, self._order, self._content)
        if self._permutes:
            return permuted(batch, self.declared(PERMUTE))
        return batch

    def placed(self, batch: Batch) -> dict[str, Tensor]:
        """Return a batch's tensors, each placed."""
        return {name: self.place(tensor) for name, tensor in batch.tensors.items()}

    @property
    def covered(self) -> bool:
        """Whether the batch in hand is watched, in this process."""
        return self._planned and not self._follows

    def watched(self) -> contextlib.AbstractContextManager[None]:
        """Watch forward and backward of the batch in hand, if the plan covers it; findings become audit rows."""
        return self._watching() if self.covered else NOTHING

    @contextlib.contextmanager
    def _watching(self) -> Iterator[None]:
        self.flush()  # a loss before it may be no number: then this batch is none to look at
        with watch(self.model, self.batch_index, self.recorder) as self._guard:
            self._guards[self.batch_index] = self._guard
            yield
        self._told[self.batch_index] = len(self._guard.findings)

    @contextlib.contextmanager
    def uncounted(self) -> Iterator[None]:
        """Leave what happens inside out of the batch's duration."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self._began += time.perf_counter() - began

    def drawing(self, where: str) -> contextlib.AbstractContextManager[None]:
        """Watch for draws that bypass the named streams in the batch in hand, if the plan covers it."""
        return watch_draws(self.model, self.batch_index, self.recorder, where) if self.covered else NOTHING

    def overwritten(self, batch_index: int) -> bool:
        """Say whether the guard found a saved tensor of that batch overwritten."""
        guard = self._guards.get(batch_index)
        return guard is not None and bool(guard.findings)

    def late_findings(self) -> None:
        """Record what guards found after their batch: a backward that ran later, over a graph kept from then."""
        for index, guard in self._guards.items():
            for row in finding_rows(guard, since=self._told.get(index, 0)):
                self.recorder.audit(batch_index=index, **row)

    def take(self, loss: object) -> Value:
        """Return a batch's loss as a number, or on a GPU arm as a copy that stays on the device.

        Raises:
            TrainableError: it is no scalar tensor.
            ArmNotInEffect: it was computed on another device than the arm's.
        """
        value = scalar(loss, self.batch_index)
        if value.device != self.device and value.device.type != self.device.type:  # the first takes less time
            found = f"asked for {self.device.type}, but the loss of batch {self.batch_index} is on {value.device.type}"
            advice = "Move data by `place` and make the rest where the model's parameters are."
            raise ArmNotInEffect(Problem("device", found, advice=advice))
        return detached(value) if self.deferred else value.item()

    def record(
        self, loss: Value, metrics: Mapping[str, float | Tensor], further: Mapping[str, Value] | None = None
    ) -> None:
        """Hand over the batch in hand and go to the next; on a CPU it is acknowledged when this returns.

        Args:
            loss: what ``take`` gave.
            metrics: the trainable's further numbers.
            further: losses of further players, as metrics' names to what ``take`` gave.

        Raises:
            TrainableError: a metric is no number.
            Diverged: after recording, if a loss is not finite.
            ArmNotInEffect: the arm asks for compile, and the first batch compiled nothing.
        """
        if self._follows:
            self.go_to(self.batch_index + 1)
            if known_not_finite([loss, *(further or {}).values()]):
                raise Diverged
            return
        duration = time.perf_counter() - self._began
        if not self._began_well:
            check_compiled(self.spec.numerics)
            self._began_well = True
        index = self.batch_index
        numbers: dict[str, Any] = {name: number(value, self.deferred) for name, value in named(metrics, index).items()}
        losses: dict[str, Any] = {"loss": loss, **further} if further else {"loss": loss}
        if self.deferred:
            self._defer(Row(index, losses, numbers, duration, self._order, self._content, self.chain.draws()))
        else:
            self._write(index, losses, numbers, duration, self._order, self._content)
        self._sketch(index)
        self._order = self._content = None
        self.go_to(index + 1)
        self._began = time.perf_counter()

    def _defer(self, row: Row[Value]) -> None:
        self._pending.add(row)
        if self._planned or self._pending.due or row.batch_index == self.spec.batches - 1:
            self.flush()
            if self._gpu is not None:
                self._gpu.sample()

    def _sketch(self, batch_index: int) -> None:
        """Record a sketch of the parameters, if the plan says so; of no batch after a loss that is not finite."""
        if self.model is not None and self.spec.sketches.covers(batch_index, self.spec.batches):
            self.flush()
            keep_sketch(self.model, batch_index, self.recorder)

    def flush(self) -> None:
        """Write what is still on the device, in order. Rows after a loss that is not finite are no rows of the trial.

        Raises:
            Diverged: after recording the first batch with a loss that is not finite.
        """
        for row in self._pending.take():
            self._write(*row)

    def _write(
        self,
        index: int,
        losses: Mapping[str, float],
        metrics: Mapping[str, float],
        duration: float,
        order: int | None,
        content: int | None,
        draws: str = "",
    ) -> None:
        """Record a batch; its numbers are plain. Raises Diverged once that is done if a loss is not finite."""
        loss, diverged = losses["loss"], False
        if len(losses) > 1 or not math.isfinite(loss):
            losses = until_not_finite(losses)
            diverged = not all(map(math.isfinite, losses.values()))
            metrics = {**{name: value for name, value in losses.items() if name != "loss"}, **metrics}
        shown = diverged or content is not None or index == self.spec.batches - 1  # contents: of watched batches
        self.recorder.record(index, loss, duration, metrics, order if shown else None, content)
        if diverged:
            self.go_to(index)
            self._draws_at_end = draws or None
            raise Diverged

    def final_columns(self) -> dict[str, object]:
        """Return the columns of ``trials`` known at its end: what proves the pairing (hashes), and the GPU's use.

        What the arm declares to change is hashed apart: the weights it moved, the values drawn for what it does to
        batches and gradients, or both.
        """
        drawn = draws_hash(self.declared) if self.declared.streams else None
        return {
            **self.columns,
            "perturbation_hash": "+".join(filter(None, [self.columns["perturbation_hash"], drawn])) or None,
            "data_hash": self.task.data_hash,
            "sketch_every": self.spec.sketches.every if self.model is not None else None,
            "draw_hash": self._draws_at_end or self.chain.draws(),
            "gpu_busy": self._gpu.busy if self._gpu is not None else None,
        }
