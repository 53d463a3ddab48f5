"""What every batch goes through, whoever owns the loop: hashed, placed, watched, recorded."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from math import isfinite
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ablate.errors import Problem
from ablate.record.recorder import Recorder
from ablate.trial.adopted import adopt
from ablate.trial.compiled import check_compiled
from ablate.trial.contract import TrainableError, all_floats, named, scalar
from ablate.trial.draw import Draw
from ablate.trial.effect import ArmNotInEffect
from ablate.trial.fingerprint import OrderChain, content_hash, draws_hash
from ablate.trial.gpu_use import GpuSampler
from ablate.trial.pending import Pending, Row, Value, detached, known_not_finite, number, until_not_finite
from ablate.trial.permuted import STREAM as PERMUTE
from ablate.trial.permuted import permuted
from ablate.trial.place import batch_placer, placer
from ablate.trial.protocol import Batch
from ablate.trial.ranks import Ranks
from ablate.trial.sketch import keep_sketch
from ablate.trial.task import TrialTask
from ablate.trial.watch import watch_draws
from ablate.trial.watches import Watches
from ablate.trial.weights import seed_global_generators

NOTHING = contextlib.nullcontext()
"""What a batch that is not watched runs under."""


class Diverged(Exception):
    """The loss of a batch is not finite; the batch is recorded and the trial ends."""


class Session:
    """The recording side of one trial.

    Most batches are named by no plan: of such a one a row is written, and that is all. What every batch goes through
    runs between two steps that drive its code and data out of the caches, where a line costs 20 times what it costs
    in a loop of its own: so little is called there, and nothing is made that is not written.

    Attributes:
        batch_index: the batch in hand, from 0.
        covered: whether it is watched, in this process.
        draw: the streams of the study, equal in every arm.
        declared: the streams of what the arm declares to change (permuted rows, noise), which have a hash of their own.
        device: where the arm computes.
        place: brings a tensor there, in the arm's precision and memory format.
        placed: does so with all tensors of a batch.
        watches: the guards of watched batches.
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
        self.watches = Watches(recorder)
        self._began_well = False
        self._busy_at = 0
        self.go_to(0)
        self.device = torch.device(self.spec.numerics.device)
        self.deferred = self.device.type == "cuda"
        self._permutes = self.spec.numerics.perturb == "permute-rows"
        self.place = placer(self.spec.numerics, self.device)
        self.placed = batch_placer(self.spec.numerics, self.device, self.place)
        self.model: nn.Module | None = None
        self._pending = Pending()
        self._gpu = GpuSampler() if self.deferred else None
        self._draws_at_end: str | None = None
        self.columns: dict[str, str | None] = {"initial_hash": None, "perturbation_hash": None}
        self._received = False
        self._content: int | None = None
        self._began = perf_counter()
        seed_global_generators(self.spec.study, self.spec.block)

    def go_to(self, batch_index: int) -> None:
        """Take this batch in hand."""
        self.batch_index = batch_index
        self._planned = self.spec.guard.covers(batch_index)
        self.covered = self._planned and not self._follows
        if not self._began_well:
            self._busy_at = batch_index
        elif self._busy_at < batch_index:
            self._busy_at = next(filter(self._asks_for_more, range(batch_index, self.spec.batches)), batch_index)

    def _asks_for_more(self, batch_index: int) -> bool:
        """Whether a batch has more to it than a row: it is watched, sketched or the last."""
        spec, last = self.spec, self.spec.batches - 1
        return batch_index == last or spec.guard.covers(batch_index) or spec.sketches.covers(batch_index, spec.batches)

    def adopt(self, model: nn.Module) -> nn.Module:
        """Give ``model`` the block's initial weights and what the arm asks for, in place."""
        self.columns = adopt(model, self.task, self.ranks)
        self.model = model
        self.watches.name_after(model)  # a function trainable makes its model inside its first batch
        with self.uncounted():
            self._sketch(-1)
        return model

    def receive(self, batch: Batch) -> Batch:
        """Hash a batch as the trainable made it, then return it placed, its rows permuted if the arm declares that."""
        if not isinstance(batch, Batch):
            found = f"batches() gave a {type(batch).__name__}"
            raise TrainableError(Problem(f"batch {self.batch_index}", found, "ablate.trial.protocol.Batch"))
        self._hash(batch.index, batch.tensors)
        if self._permutes:
            batch = permuted(batch, self.declared(PERMUTE))
        tensors = self.placed(batch.tensors)
        return batch if tensors is batch.tensors else Batch(batch.index, tensors)

    def receive_tensors(
        self, index: np.ndarray[Any, np.dtype[np.int64]], tensors: dict[str, Tensor]
    ) -> dict[str, Tensor]:
        """Do what ``receive`` does with a batch that is no ``Batch``, and return its tensors."""
        self._hash(index, tensors)
        if self._permutes:
            tensors = dict(permuted(Batch(index, tensors), self.declared(PERMUTE)).tensors)
        return self.placed(tensors)  # type: ignore[return-value]  # of a dict it makes a dict, or gives it back

    def _hash(self, index: np.ndarray[Any, np.dtype[np.int64]], tensors: Mapping[str, Tensor]) -> None:
        """Hash a batch.

        Every batch's index list enters the order hash; contents are hashed on watched batches only, since hashing
        401 kB costs as much as a small model's step.
        """
        self._began = perf_counter()
        self.chain.add(index)
        self._received = True
        self._content = content_hash(tensors) if self._planned else None
        if self.ranks is not None:
            self.ranks.agree(self.batch_index, self.chain.digest, self._content)

    def watched(self) -> contextlib.AbstractContextManager[None]:
        """Watch forward and backward of the batch in hand, if the plan covers it; findings become audit rows."""
        return self._watching() if self.covered else NOTHING

    @contextlib.contextmanager
    def _watching(self) -> Iterator[None]:
        self.flush()  # a loss before it may be no number: then this batch is none to look at
        with self.watches.batch(self.model, self.batch_index):
            yield

    @contextlib.contextmanager
    def uncounted(self) -> Iterator[None]:
        """Leave what happens inside out of the batch's duration."""
        began = perf_counter()
        try:
            yield
        finally:
            self._began += perf_counter() - began

    def drawing(self, where: str) -> contextlib.AbstractContextManager[None]:
        """Watch for draws that bypass the named streams in the batch in hand, if the plan covers it."""
        return watch_draws(self.model, self.batch_index, self.recorder, where) if self.covered else NOTHING

    def take(self, loss: object) -> Value:
        """Return a batch's loss as a number, or on a GPU arm as a copy that stays on the device.

        Raises:
            TrainableError: it is no scalar tensor.
            ArmNotInEffect: it was computed on another device than the arm's.
        """
        if type(loss) is Tensor and not self.deferred and loss.device == self.device and loss.numel() == 1:
            plain = loss.item()
            if type(plain) is float:
                return plain
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
        duration = perf_counter() - self._began
        index = self.batch_index
        if self._follows:
            self.go_to(index + 1)
            if known_not_finite([loss, *(further or {}).values()]):
                raise Diverged
            return
        numbers: Mapping[str, Any] = metrics
        if not all_floats(metrics):
            numbers = {name: number(value, self.deferred) for name, value in named(metrics, index).items()}
        if index < self._busy_at and type(loss) is float and isfinite(loss) and not further:
            self.recorder.record(index, loss, duration, numbers)
        else:
            self._record_in_full(index, {"loss": loss, **(further or {})}, numbers, duration)
        self._received = False
        self.batch_index = index = index + 1
        if index >= self._busy_at:
            self.go_to(index)
        self._began = perf_counter()

    def _record_in_full(
        self, index: int, losses: Mapping[str, Any], numbers: Mapping[str, Any], duration: float
    ) -> None:
        """Record a batch that has more to it than a row, or may have."""
        if not self._began_well:
            check_compiled(self.spec.numerics)
            self._began_well = True
        order = self.chain.digest if self._received else None
        if self.deferred:
            self._defer(Row(index, losses, dict(numbers), duration, order, self._content, self.chain.draws()))
        else:
            self._write(index, losses, numbers, duration, order, self._content)
        self._sketch(index)
        self._content = None

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
        if len(losses) > 1 or not isfinite(loss):
            losses = until_not_finite(losses)
            diverged = not all(map(isfinite, losses.values()))
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
