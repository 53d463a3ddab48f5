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

from ablate.audit.distance import Distance, distance, error_bound, judge, norm, update_bound
from ablate.audit.range_seen import RangeSeen
from ablate.audit.reduction import ReductionLength
from ablate.audit.rounding_noise import RoundingNoise
from ablate.audit.roundoff import FLOAT32
from ablate.trial.fingerprint import state
from ablate.trial.protocol import Player
from ablate.trial.rerun import Rerun
from ablate.trial.seen import Seen
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
            parameter.grad = None if given is None else given.to(parameter.device, parameter.dtype)

    def update(self, player: Player) -> None:
        """Replace the model's state by the arm's."""
        with torch.no_grad():
            for name, tensor in state(self._stepper.model).items():
                tensor.copy_(self._arm.players[player.name].after[name])


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
    """

    def __init__(self, at: Snapshot, arm: Seen, reference: Rerun, reduction: int = 0) -> None:
        self._at = at
        self._arm = arm
        self._reference = reference
        self._samples = SAMPLES
        self._simulated: dict[float, list[dict[Value, Tensor]]] = {}
        length = ReductionLength()
        self.reference = self._run(None if reduction else length)
        self.reduction = reduction or length.longest

    @cached_property
    def values(self) -> dict[Value, Tensor]:
        """What the arm's step gave."""
        return dict(values(self._arm))

    def exceeds(self, roundoff: float, own: Seen | None) -> bool:
        """Say whether any value, or one of the arm's own code in float64, is farther off than the plain bound allows.

        Rounding is not simulated for it.
        """
        judged = self._judged(roundoff, dict(values(own)) if own is not None else {}, None)
        return any(not one.within_bound or not (one.own_error or 0.0) <= (one.own_bound or 0.0) for one in judged)

    def distances(self, roundoff: float, own: Seen | None, code_roundoff: float = FLOAT32) -> list[Distance]:
        """Judge every value of the batch.

        Args:
            roundoff: unit roundoff of the coarsest arithmetic in the arm's step.
            own: the arm's own code in float64, from the same state and with the arm's gradients; None if not run.
            code_roundoff: how far from exact the arm's own code is meant to be even in float64: it may round to float32
                inside, or coarser on purpose.
        """
        owns = dict(values(own)) if own is not None else {}
        self._samples = FEW if self.clearly_wrong(own) else SAMPLES
        judged = self._judged(roundoff, owns, self._simulate)
        return [self._of_the_code(one, code_roundoff) for one in judged]

    def clearly_wrong(self, own: Seen | None) -> bool:
        """Say whether the arm's own code is so far off in float64 that no conditioning could bring rounding there."""
        if own is None:
            return False
        gradients = {value: exact for value, exact in values(self.reference) if value.quantity == "gradient"}
        # held against the largest, or a gradient that is 0 but for float64's own rounding would count
        largest = max(map(norm, gradients.values()), default=0.0)
        explained = CLEAR * error_bound(largest, FLOAT32, self.reduction)
        return any(distance(found, gradients[value]) > explained for value, found in values(own) if value in gradients)

    def _judged(self, roundoff: float, own: dict[Value, Tensor], simulate: Simulate | None) -> list[Distance]:
        weights = self._weights()
        return [
            judge(
                quantity=value.quantity,
                name=value.name,
                arm=self.values[value],
                reference=exact,
                roundoff=roundoff,
                reduction=self.reduction,
                simulate=simulate and _of(simulate, value),
                own=own.get(value),
                weights=weights.get(value),
                beyond_range=lambda: self._range.beyond,
                overflowed=None if self._samples == FEW else lambda: self._range.overflow,
            )
            for value, exact in values(self.reference)
        ]

    def _of_the_code(self, one: Distance, roundoff: float) -> Distance:
        """Call a fault what the arm's own code does in float64 too, even where the arm's precision would hide it."""
        if one.own_error is None or one.own_bound is None or one.verdict == "bug" or one.own_error <= one.own_bound:
            return one
        weights = self._weights().get(Value(one.quantity, one.name))
        if weights is None:
            explained = error_bound(one.scale, roundoff, self.reduction)
        else:
            explained = update_bound(one.scale, roundoff, self.reduction, norm(weights), roundoff)
        if not one.own_error > explained:
            return one
        words = f"the arm's own code in float64 is {one.own_error:.2g} from the reference, where rounding is gone"
        return replace(one, verdict="bug", detail=words)

    @cached_property
    def _range(self) -> RangeSeen:
        """Where the reference leaves the range of the arm's type."""
        seen = RangeSeen(next(iter(self._arm.players.values())).loss.dtype)
        self._run(seen)
        return seen

    def _run(self, inside: AbstractContextManager[Any] | None = None) -> Seen:
        return self._reference.step(self._at, ArmsOwn(self._reference.stepper, self._arm), inside=inside)

    def _simulate(self, roundoff: float) -> list[dict[Value, Tensor]]:
        if roundoff not in self._simulated:
            self._simulated[roundoff] = [
                dict(values(self._run(RoundingNoise(roundoff, seed)))) for seed in range(self._samples)
            ]
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
