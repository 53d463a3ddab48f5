"""``ctx``: what a function trainable ``train(config, ctx)`` is given; it owns its loop, calls ``ctx.batch(loss)``."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor, nn

from ablate.errors import Problem
from ablate.trial.audit_rows import unseen_row
from ablate.trial.compiled import F, maybe_compiled
from ablate.trial.contract import TrainableError, checked_model, numbers
from ablate.trial.draw import Draw
from ablate.trial.gallery import Gallery
from ablate.trial.gradient_noise import in_every_step
from ablate.trial.numerics import DTYPES
from ablate.trial.protocol import Shown
from ablate.trial.resume import Resume
from ablate.trial.session import Session

INT64 = np.dtype(np.int64)

OWN_LOOP = (
    "a function trainable owns its loop, so its losses, gradients and updates were not held against float64; "
    "its saved tensors, weights, data and draws were watched all the same"
)


class Context:
    """A function trainable's side of the recording.

    Attributes:
        batches: how many batches there are in all.
        first_batch: the batch to begin with: 0, or where an earlier attempt's checkpoint was made.
        draw: named random streams, ``ctx.draw("order")``.
        device: where to compute; never chosen by the trainable.
        dtype: the arm's precision.
    """

    def __init__(self, session: Session, resume: Resume) -> None:
        self._session = session
        self._resume = resume
        self._watch: contextlib.ExitStack | None = None
        self._indexed = False
        self._gallery = Gallery(session)
        self.batches = session.spec.batches
        self.first_batch = resume.batches
        self.draw: Draw = session.draw
        self.device = session.device
        self.dtype = DTYPES[session.spec.numerics.precision]

    def initialise(self, model: nn.Module) -> nn.Module:
        """Give ``model`` the block's initial weights and the arm's precision; call it once, before the optimiser."""
        adopted = self._session.adopt(checked_model(model, "ctx.initialise"))
        if self._watch is not None:  # what was drawn before made weights that have just been replaced
            self._watch.enter_context(self._session.drawing("train"))
        return adopted

    def place(self, tensor: Tensor) -> Tensor:
        """Cast a floating tensor to the arm's precision and move it to its device."""
        return self._session.place(tensor)

    def compile(self, function: F) -> F:
        """Return ``function``, compiled if the arm asks for it; pass your loss function, once, before the loop."""
        return maybe_compiled(function, self._session.spec.numerics)

    def data(self, index: Sequence[int] | np.ndarray[Any, Any], **tensors: Tensor) -> dict[str, Tensor]:
        """Hash this batch's index list and contents, and return its tensors placed. Call it once per batch.

        Raises:
            TrainableError: if it is called twice before ``ctx.batch``.
        """
        if self._indexed:
            raise TrainableError(
                Problem(f"batch {self._session.batch_index}", "ctx.data was called twice", "once per batch")
            )
        self._indexed = True
        if type(index) is not np.ndarray or index.dtype is not INT64:
            index = np.asarray(index, dtype=np.int64)
        return self._session.receive_tensors(index, tensors)

    def batch(self, loss: Tensor, metrics: Mapping[str, float | Tensor] | None = None) -> None:
        """Record the loss of the batch that just ended; call it after the optimiser's step.

        Raises:
            TrainableError: no scalar loss, or more batches than the grid asks for.
        """
        session = self._session
        index = session.batch_index
        if index >= self.batches:
            raise TrainableError(
                Problem(f"batch {index}", f"ctx.batch was called {index + 1} times", f"{self.batches} (ctx.batches)")
            )
        value = session.take(loss)
        if self._watch is not None:
            self.close()
        self._indexed = False
        session.record(value, metrics or {})
        if self._gallery.planned:
            self._gallery.finish()
        if index + 1 < self.batches:
            self._resume.pass_by()
            if session.covered:
                self._begin().enter_context(session.drawing("train"))

    def artifact(self, name: str, value: Shown | Callable[[], Shown]) -> None:
        """Record something to look at, if the grid's plan names the batch in hand; call it before ``ctx.batch``.

        Args:
            name: lower-case letters, digits and _; once per batch.
            value: ``Images``, ``Maps``, a tensor or a number; or a callable that returns one, which is called only
                when it is wanted, without gradient, and leaves model and generators as they were.

        Raises:
            TrainableError: another name or value, or the same name twice.
        """
        self._gallery.show(name, value)

    def resume(self) -> Mapping[str, Any] | None:
        """Return what ``ctx.checkpoint`` saved in an earlier attempt, else None; call it right before the loop.

        The random streams then stand where they stood at the checkpoint, and the loop begins at ``ctx.first_batch``.
        """
        return self._resume.restore()

    def checkpoint(self, collect: Callable[[], Mapping[str, Any]]) -> None:
        """Save ``collect()`` if the grid's plan says so now; call it after ``ctx.batch``.

        Args:
            collect: returns all that the loop needs to go on: tensors, numbers and text in dicts and lists.
        """
        self._resume.offer(collect)

    def close(self) -> None:
        """End the watch on the batch in hand."""
        if self._watch is not None:
            watch, self._watch = self._watch, None
            watch.close()

    def _begin(self) -> contextlib.ExitStack:
        self.close()
        self._watch = contextlib.ExitStack()
        self._watch.enter_context(self._session.watched())
        return self._watch


def train(function: Any, config: dict[str, Any], session: Session, resume: Resume) -> dict[str, float]:
    """Run a function trainable to its end; what it returns, if a mapping, are held-out outcomes.

    Raises:
        TrainableError: fewer batches than asked for, or a return value that is no mapping of numbers.
        Diverged: a loss that is not finite.
    """
    resume.take_over()
    if session.spec.audit:
        session.recorder.audit(batch_index=session.batch_index, **unseen_row(OWN_LOOP))
    context = Context(session, resume)
    context._begin()
    try:
        with in_every_step(session.declared, session.spec.numerics.gradient_noise):
            outcome = function(config, context)
    finally:
        context.close()
    if session.batch_index != session.spec.batches:
        raise TrainableError(
            Problem(
                "end of training",
                f"ctx.batch was called {session.batch_index} times",
                f"{session.spec.batches} (ctx.batches)",
            )
        )
    if outcome is None:
        return {}
    return numbers(outcome, "train()")
