"""The loop for structured trainables: batch after batch through the one shared step, each recorded as it ends."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from ablate.errors import Problem
from ablate.trial.auditor import Auditor
from ablate.trial.compiled import maybe_compiled
from ablate.trial.contract import TrainableError, checked_batches, checked_model, numbers
from ablate.trial.gallery import Gallery
from ablate.trial.gradient_noise import noise
from ablate.trial.kept_weights import Keeper
from ablate.trial.pending import Value
from ablate.trial.protocol import Batch, Player
from ablate.trial.resume import Resume
from ablate.trial.session import Diverged, Session
from ablate.trial.step import Observer, Stepper
from ablate.trial.worker_step import WorkerStepper


def train(make: Callable[..., Any], session: Session, resume: Resume) -> dict[str, float]:
    """Build the trainable and run every batch; return the held-out outcomes of ``evaluate()``, empty without one.

    The recorded loss is the first player's, before its step; further players' are metrics ``loss_<player>``.

    Raises:
        TrainableError: a broken contract.
        Diverged: a loss that is not finite.
    """
    trainable = make(**session.spec.settings)
    model = session.adopt(checked_model(trainable.build()))
    numerics = session.spec.numerics
    disturb = noise(session.declared, numerics.gradient_noise)
    if session.ranks is None:
        stepper = Stepper(trainable, model, lambda loss: maybe_compiled(loss, numerics), disturb)
    else:
        stepper = WorkerStepper(trainable, model, session.ranks, disturb)
    gallery = Gallery(session)
    auditor = Auditor(make, stepper, session)
    batches = auditor.feed(checked_batches(trainable.batches(session.draw)))
    taken = _Recorded(session, gallery)
    measure = getattr(trainable, "metrics", None)
    first = stepper.players[0].name
    look = (lambda: trainable.look(model, session.place)) if hasattr(trainable, "look") else None
    resume.take_over()
    for _ in range(resume.batches):  # the data's position is reached by drawing, not by training
        next(batches)
    if stored := resume.restore():
        stepper.restore(stored)
    keeper = Keeper(session, stepper, resume.code, resume.batches)
    while session.batch_index < session.spec.batches:
        placed = session.receive(_next(batches, session))
        if keeper.planned:
            keeper.before()
        seers = auditor.before(placed) if session.batch_index <= auditor.last else []
        if session.covered:
            with session.watched(), session.drawing("the step"):
                stepper.step(placed, taken, *seers)
        else:
            stepper.step(placed, taken, *seers)
        metrics = measure(stepper.carries[first]) if measure else {}
        if session.ranks is not None:
            metrics = session.ranks.means(metrics, len(placed.index), session.device)
        try:
            session.record(taken.losses.pop(first), metrics, taken.further())
        except Diverged:
            auditor.diverged()
            raise
        if gallery.planned:
            gallery.finish(look)
        if seers:
            auditor.after()
        if keeper.planned:
            keeper.after()
        resume.offer(stepper.collect)
    if session.task.follows or not hasattr(trainable, "evaluate"):
        return {}
    with torch.no_grad():
        return numbers(trainable.evaluate(model, session.place), "evaluate()")


def _next(batches: Iterator[Batch], session: Session) -> Batch:
    """Draw a batch, watched if it is covered."""
    if session.covered:
        with session.drawing("batches()"):
            batch = next(batches, None)
    else:
        batch = next(batches, None)
    if batch is not None:
        return batch
    at, advice = session.batch_index, "It must yield without end: start the data again."
    raise TrainableError(Problem(f"batch {at}", f"batches() ended after {at} of {session.spec.batches}", advice=advice))


class _Recorded(Observer):
    """Takes each batch's losses for the record and its gradients for the gallery."""

    def __init__(self, session: Session, gallery: Gallery) -> None:
        self.losses: dict[str, Value] = {}
        self._session = session
        self._gallery = gallery

    def loss(self, player: Player, loss: Tensor) -> bool:
        taken = self.losses[player.name] = self._session.take(loss)
        return isinstance(taken, float) and not math.isfinite(taken)  # one on the device is looked at when it is read

    def given(self, player: Player) -> None:
        if self._gallery.planned:
            self._gallery.gradients(player)

    def further(self) -> dict[str, Value]:
        """Let go of the losses that are left, as the columns of further players."""
        if not self.losses:
            return {}
        losses, self.losses = self.losses, {}
        return {f"loss_{name}": value for name, value in losses.items()}
