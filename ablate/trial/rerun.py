"""The same trainable a second time, beside the one that trains: in float64, to hold the arm's arithmetic against."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor

from ablate.audit.fresh import fresh_copies
from ablate.audit.replayed_draws import DrawLog, DrawnIn
from ablate.trial import checkpoint
from ablate.trial.protocol import Carry, Loss
from ablate.trial.seen import Gradients, Seen
from ablate.trial.snapshot import Snapshot, batch_of, begin
from ablate.trial.step import Observer, Stepper


class Rerun:
    """A stepper of its own for one trainable, and the numerics it runs under.

    Args:
        make: the trainable's class.
        settings: its settings.
        env: environment variables that differ from this process's while its code runs; None takes one away.
        dtype: its precision.
        device: where it computes.
        reference: eager, one thread, no oneDNN, and with every tensor copied that autograd saves. If not, it runs under
            this process's own threads and flags, aliases included.
        drawn_in: the arm's precision, in which its draws from torch's global generator were made.
        compiled: what the arm makes of a loss function.

    Attributes:
        draws: the arm's draws of the batch, with their types and layouts, to be repeated; None if they are not known.
        overwritten: whether something changed what the last step had saved before backward used it, if that was
            compared.

    Raises:
        Exception: whatever the trainable raises when it is built or run like this.
    """

    def __init__(
        self,
        make: Callable[..., Any],
        settings: Mapping[str, Any],
        env: Mapping[str, str | None],
        dtype: torch.dtype,
        device: torch.device,
        reference: bool,
        drawn_in: torch.dtype,
        compiled: Callable[[Loss], Loss],
    ) -> None:
        self._env = env
        self._reference = reference
        self._drawn_in = drawn_in
        self.draws: DrawLog | None = None
        self.overwritten = False
        self.dtype = dtype
        self.device = device
        with self.numerics():
            trainable = make(**settings)
            self.stepper = Stepper(trainable, trainable.build().to(device=device, dtype=dtype), compiled)
        players = self.stepper.players
        self._options = {player.name: deepcopy(player.optimiser.state_dict()["param_groups"]) for player in players}

    @contextmanager
    def numerics(self) -> Iterator[None]:
        """Run the block under this rerun's numerics; threads, flags, variables and generators are then as before."""
        threads, default, onednn = torch.get_num_threads(), torch.get_default_dtype(), torch.backends.mkldnn.enabled
        generators = checkpoint.global_generators()
        with ExitStack() as stack:
            stack.callback(checkpoint.restore_generators, generators)
            stack.enter_context(_environment(self._env))
            stack.callback(torch.set_default_dtype, default)
            torch.set_default_dtype(self.dtype)  # a tensor that the user's code makes without naming a type
            if self._reference:
                stack.callback(torch.set_num_threads, threads)
                stack.callback(setattr, torch.backends.mkldnn, "enabled", onednn)
                torch.set_num_threads(1)
                torch.backends.mkldnn.enabled = False  # type: ignore[assignment]
            yield

    def begin(self, at: Snapshot) -> None:
        """Go to where the arm was.

        Raises:
            Exception: this rerun's model has no place for the arm's state.
        """
        begin(self.stepper, at, self.dtype, self.device, self._options)

    def step(
        self,
        at: Snapshot,
        *observers: Observer,
        inside: AbstractContextManager[Any] | None = None,
        go_on: bool = False,
        first: Callable[[], None] | None = None,
        compare: bool = False,
    ) -> Seen:
        """Step the batch of ``at`` and return what it gave.

        Args:
            at: where the arm was; torch's global generator starts from there too.
            observers: as for ``Stepper.step``.
            inside: a further context for it.
            go_on: whether to step from where this stepper stands, not from the arm's state.
            first: called when the stepper stands there.
            compare: whether to compare what is saved when it is used, which a reference copies.
        """
        seen = Seen(self.stepper)
        with self.numerics(), ExitStack() as stack:
            if not go_on:
                self.begin(at)
            batch = batch_of(at, self.dtype, self.device)
            checkpoint.restore_generators(at.generators)
            if first is not None:
                first()
            copies = stack.enter_context(fresh_copies(compare)) if self._reference else None
            if inside is not None:
                stack.enter_context(inside)
            if self.draws is not None:
                stack.enter_context(DrawnIn(self._drawn_in, self.draws))
            self.stepper.step(batch, seen, *observers)
            self.overwritten = copies is not None and copies.overwritten
        return seen

    def end(
        self, at: Snapshot, gradients: Gradients, buffers: Mapping[str, Tensor], carries: Mapping[str, Carry]
    ) -> None:
        """Go to where a step of the batch of ``at`` would end, given what its passes gave; there is one player."""
        (player,) = self.stepper.players
        with self.numerics():
            self.begin(at)
            with torch.no_grad():
                for name, buffer in self.stepper.model.named_buffers():
                    buffer.copy_(buffers[name])
            for name, parameter in player.parameters.items():
                parameter.grad = gradients[name]
            self.stepper.carries = dict(carries)
            self.stepper.optimise(player)


@contextmanager
def _environment(changes: Mapping[str, str | None]) -> Iterator[None]:
    """Change environment variables for code that reads them while it runs; compiled code read its own at the start."""
    before = {name: os.environ.get(name) for name in changes}
    try:
        _set(changes)
        yield
    finally:
        _set(before)


def _set(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
