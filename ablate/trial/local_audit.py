"""One batch of the arm against the same batch in float64, both from the arm's own state.

The float64 step takes the arm's gradients, cast, before its optimiser steps: an update is judged given the gradient,
or a sign that rounding turned would count twice under Adam. After each player's step it takes the arm's parameters, so
that the next player is judged from where the arm's next player stood.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from ablate.audit.bounds import error_bound
from ablate.audit.distance import FACTOR, Distance, judge
from ablate.audit.measured import Measured, measure
from ablate.audit.narrow_noise import NARROW, rounding_noise
from ablate.audit.range_seen import RangeSeen
from ablate.audit.reduction import ReductionLength
from ablate.audit.roundoff import FLOAT32
from ablate.trial.fingerprint import state
from ablate.trial.protocol import Player
from ablate.trial.rerun import Rerun
from ablate.trial.seen import Seen
from ablate.trial.slope_audit import SlopeAudit
from ablate.trial.snapshot import Snapshot
from ablate.trial.step import Observer, Stepper

SAMPLES = 6
"""Simulations of rounding: all miss one of two ways that a tie can turn in 1 of 64 cases."""

FEW = 1
CLEAR = 1000.0
"""Where a gradient of the arm's own code is so many times farther off in float64 than float32's rounding of the largest
gradient explains, one will do: float64's rounding would need a condition number of 1e11 to get there, and what float32
would add is simulated only to say by how much the fault exceeds it."""


class ArmsOwn(Observer):
    """Gives a float64 step the arm's gradients before the optimiser, and the arm's state after it."""

    def __init__(self, stepper: Stepper, arm: Seen) -> None:
        self._stepper = stepper
        self._arm = arm

    def given(self, player: Player) -> None:
        """Replace the gradients by the arm's."""
        for name, parameter in player.parameters.items():
            given = self._arm.players[player.name].given[name]
            parameter.grad = None if given is None else given.to(parameter.device, parameter.dtype, copy=True)

    def update(self, player: Player) -> None:
        """Replace the model's state by the arm's, for the next player to start from."""
        if player.name == self._stepper.players[-1].name:
            return
        with torch.no_grad():
            for name, tensor in state(self._stepper.model).items():
                tensor.copy_(self._arm.players[player.name].after[name])


class Unmeasured(Observer):
    """Lets another look at the gradients without its own passes being measured."""

    def __init__(self, other: Observer, length: ReductionLength) -> None:
        self._other = other
        self._length = length

    def slope(self, player: Player) -> None:
        """Let the other look."""
        with self._length.left():
            self._other.slope(player)

    def update(self, player: Player) -> None:
        """Let the other look."""
        self._other.update(player)


@dataclass(frozen=True)
class Value:
    """One number or tensor of a batch, by what it is: ``loss``, ``gradient``, ``update`` or ``state``, and whose."""

    quantity: str
    name: str


Simulate = Callable[[float], list[dict[Value, Tensor]]]


class LocalAudit:
    """The comparison of one audited batch.

    Args:
        at: what the batch started from.
        arm: what the arm's step gave.
        reference: the float64 stepper.
        reduction: the longest sum of the step, if it is known from an earlier batch; 0 to find out.
        same_code: whether the reference runs the arm's own code, but for the copies of what it saves; then it is looked
            at whether these make a difference.
        slope: looks at the float64 gradient as well.

    Attributes:
        reference: what the float64 step gave.
        reduction: the longest sum of the step.
        is_own_code: whether the arm's own code would give the very same: its copies made no difference.
        carries: what the float64 step hands to the next batch.
    """

    def __init__(
        self,
        at: Snapshot,
        arm: Seen,
        reference: Rerun,
        reduction: int = 0,
        *,
        same_code: bool = False,
        slope: SlopeAudit | None = None,
    ) -> None:
        self._at = at
        self._arm = arm
        self._reference = reference
        self._own: Seen | None = None
        self._samples = SAMPLES
        self._held_in = torch.float32
        self._failed: Exception | None = None
        self._simulated: dict[float, list[dict[Value, Tensor]]] = {}
        length = ReductionLength()
        observers = [Unmeasured(slope, length)] if slope else []
        self.reference = self._run(
            None if reduction else length, *observers, compare=same_code, first=slope.begin if slope else None
        )
        self.is_own_code = same_code and not reference.overwritten
        self.reduction = reduction or length.longest
        self.carries = dict(reference.stepper.carries)

    @cached_property
    def values(self) -> dict[Value, Tensor]:
        """What the arm's step gave."""
        return dict(values(self._arm))

    def hold_against(self, own: Seen) -> None:
        """Take in what the arm's own code gave in float64, from the same state and with the arm's gradients."""
        self._own = own

    @cached_property
    def _measured(self) -> dict[Value, Measured]:
        exact = dict(values(self.reference))
        own = {} if self._own is None else exact if self._own is self.reference else dict(values(self._own))
        weights = self._weights()
        return {
            value: measure(value.quantity, value.name, self.values[value], one, own.get(value), weights.get(value))
            for value, one in exact.items()
        }

    def exceeds(self, roundoff: float) -> bool:
        """Say whether any value, or one of the arm's own code in float64, is farther off than the plain bound allows.

        Rounding is not simulated for it.
        """
        return any(one.exceeds(roundoff, self.reduction) for one in self._measured.values())

    def distances(
        self, roundoff: float, code_roundoff: float = FLOAT32, held_in: torch.dtype = torch.float32
    ) -> list[Distance]:
        """Judge every value of the batch.

        Args:
            roundoff: unit roundoff of the coarsest arithmetic in the arm's step.
            code_roundoff: how far from exact the arm's own code is meant to be even in float64: it may round to float32
                inside, or coarser on purpose.
            held_in: the type that the arm's numbers are held in, which decides their range.
        """
        self._held_in = held_in
        self._samples = FEW if self._clearly_wrong() else SAMPLES
        return [
            self._of_the_code(
                judge(
                    one,
                    roundoff=roundoff,
                    reduction=self.reduction,
                    simulate=_of(self._simulate, value),
                    beyond_range=lambda: self._range.beyond,
                    overflowed=None if self._samples == FEW else lambda: self._range.overflow,
                    held_in=held_in,
                ),
                one,
                code_roundoff,
            )
            for value, one in self._measured.items()
        ]

    def _clearly_wrong(self) -> bool:
        """Say whether the arm's own code is so far off in float64 that no conditioning could bring rounding there.

        Of code that casts to a narrow type nothing is clear: what is too small for it is lost in float64 too.
        """
        if self._held_in in NARROW:
            return False
        gradients = [one for one in self._measured.values() if one.quantity == "gradient"]
        # one that is 0 but for float64's own rounding does not count: it is held against the largest's last place
        least = FLOAT32 * max((one.scale for one in gradients), default=0.0)
        return any(
            one.own_error is not None
            and one.own_error > CLEAR * error_bound(max(one.scale, least), FLOAT32, self.reduction)
            for one in gradients
        )

    def _of_the_code(self, one: Distance, measured: Measured, roundoff: float) -> Distance:
        """Call a fault what the arm's own code does in float64 too, even where the arm's precision would hide it."""
        if one.own_error is None or one.own_bound is None or one.verdict == "bug" or one.own_error <= one.own_bound:
            return one
        if not one.own_error > measured.bound(roundoff, self.reduction, roundoff):
            return one
        # what a narrow type loses is lost in the code's casts too, and its rounding was simulated
        if self._held_in in NARROW and roundoff > FLOAT32 and one.own_error <= FACTOR * (one.noise or 0.0):
            return one
        words = f"the arm's own code in float64 is {one.own_error:.2g} from the reference, where rounding is gone"
        return replace(one, verdict="bug", detail=words)

    @cached_property
    def _range(self) -> RangeSeen:
        """Where the reference leaves the range of the arm's type."""
        loss = next(iter(self._arm.players.values())).loss.dtype
        seen = RangeSeen(self._held_in if self._held_in in NARROW else loss)
        self._run(seen)
        return seen

    def _run(self, inside: AbstractContextManager[Any] | None = None, *observers: Observer, **changes: Any) -> Seen:
        own = ArmsOwn(self._reference.stepper, self._arm)
        return self._reference.step(self._at, *observers, own, inside=inside, **changes)

    def _simulate(self, roundoff: float) -> list[dict[Value, Tensor]]:
        if self._failed is not None:
            raise self._failed
        if roundoff not in self._simulated:
            held_in = self._held_in if roundoff > FLOAT32 else torch.float32
            noises = (rounding_noise(roundoff, seed, held_in) for seed in range(self._samples))
            try:
                self._simulated[roundoff] = [dict(values(self._run(noise))) for noise in noises]
            except Exception as error:
                self._failed = error
                raise
        return self._simulated[roundoff]

    def _weights(self) -> dict[Value, Tensor]:
        """Return the parameters that each update was added to: their new values are rounded too."""
        return {
            Value("update", label): weights
            for player, name, label in _labels(self._arm)
            if (weights := self._arm.players[player].weights.get(name)) is not None
        }


def _of(simulate: Simulate, value: Value) -> Callable[[float], list[Tensor]]:
    return lambda roundoff: [sample[value] for sample in simulate(roundoff)]


def values(seen: Seen) -> Iterator[tuple[Value, Tensor]]:
    """Yield everything that is compared: losses, gradients, updates, and the buffers after each player's step.

    A gradient that is not there counts as 0.
    """
    for player, one in seen.players.items():
        yield Value("loss", player), one.loss.detach().cpu()
    for player, name, label in _labels(seen):
        one = seen.players[player]
        gradient = one.gradient[name]
        yield (
            Value("gradient", label),
            torch.zeros_like(one.weights[name]) if gradient is None else _dense(gradient).cpu(),
        )
        yield Value("update", label), one.update[name]
    for player, one in seen.players.items():
        for name in one.buffers:
            yield Value("state", _label(seen, player, name)), _number(one.after[name]).cpu()


def _labels(seen: Seen) -> Iterator[tuple[str, str, str]]:
    for player, one in seen.players.items():
        for name in one.weights:
            yield player, name, _label(seen, player, name)


def _label(seen: Seen, player: str, name: str) -> str:
    return name if len(seen.players) == 1 else f"{player}.{name}"


def _number(t: Tensor) -> Tensor:
    return t if t.is_floating_point() or t.is_complex() else t.double()


def _dense(t: Tensor) -> Tensor:
    return t.to_dense() if t.layout is not torch.strided else t
