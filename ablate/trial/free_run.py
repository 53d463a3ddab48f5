"""A float64 run from the trial's first batch on, each step from its own result: what the local steps start anew.

A local step begins from the arm's state and forgives whatever was wrong with it: a carry that is cut elsewhere, an
optimiser's state that is lost between batches. A free run does not; its losses part from the arm's by rounding alone,
as it grows with the steps. How far that goes is simulated: the same run from weights that are one unit roundoff off,
with rounding in every operation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from ablate.audit.distance import Distance, judge
from ablate.audit.measured import measure
from ablate.audit.narrow_noise import NarrowNoise, rounding_noise
from ablate.trial.local_audit import SAMPLES, LocalAudit
from ablate.trial.protocol import Carry, Player
from ablate.trial.rerun import Rerun
from ablate.trial.seen import Gradients, Seen
from ablate.trial.snapshot import Snapshot
from ablate.trial.step import Observer


@dataclass(frozen=True)
class Begun:
    """What a float64 step of the first batch gave: it need not be made again, only ended by its own gradients.

    Attributes:
        loss: of the first player.
        gradients: those that its optimiser was to use.
        buffers: as the step left them.
        carries: what the step hands to the next batch.
    """

    loss: Tensor
    gradients: Gradients
    buffers: dict[str, Tensor]
    carries: dict[str, Carry]

    @classmethod
    def of(cls, local: LocalAudit, trainable: object) -> Self | None:
        """Return it from the first batch's comparison; None where that is not enough to go on from.

        With several players each goes on from the arm's own update of the one before; and what passes change in a
        trainable that keeps a state is not kept.
        """
        if len(local.reference.players) != 1 or hasattr(trainable, "state"):
            return None
        (only,) = local.reference.players.values()
        return cls(only.loss, only.gradient, {name: only.after[name] for name in only.buffers}, local.carries)


class FreeRun:
    """The trial's first batches in a row.

    Args:
        ats: what each of them started from in the arm; the state of the first alone is used.
        arms: what the arm's steps gave.
        reference: the float64 stepper.
        held_in: the type that the arm's numbers are held in, which decides their range.
        begun: its first step, if it was made before.
    """

    def __init__(
        self,
        ats: Sequence[Snapshot],
        arms: Sequence[Seen],
        reference: Rerun,
        held_in: torch.dtype,
        begun: Begun | None = None,
    ) -> None:
        self._ats = ats
        self._arms = arms
        self._reference = reference
        self._held_in = held_in
        self._begun = begun
        self._simulated: list[list[Tensor]] = []

    def distances(self, roundoff: float, reduction: int) -> list[tuple[int, Distance]]:
        """Judge the first player's loss of every batch after the first; return (batch, distance).

        Args:
            roundoff: unit roundoff of the coarsest arithmetic in the arm's steps.
            reduction: the longest sum in a step; over so many steps errors add up, so it is multiplied by their number.
        """
        exact = self._losses()
        name = next(iter(self._arms[0].players))
        return [
            (
                at.batch_index,
                judge(
                    measure("loss", name, arm.players[name].loss.cpu(), exact[step]),
                    roundoff=roundoff,
                    reduction=reduction * (step + 1),
                    simulate=self._of(step),
                    held_in=self._held_in,
                ),
            )
            for step, (at, arm) in enumerate(zip(self._ats, self._arms, strict=True))
            if step > 0
        ]

    def _of(self, step: int) -> Callable[[float], list[Tensor]]:
        return lambda roundoff: [sample[step] for sample in self._simulate(roundoff)]

    def _losses(self, roundoff: float = 0.0, seed: int = 0) -> list[Tensor]:
        losses = []
        for step, at in enumerate(self._ats):
            if step == 0 and not roundoff and self._begun is not None:
                self._reference.end(at, self._begun.gradients, self._begun.buffers, self._begun.carries)
                losses.append(self._begun.loss.cpu())
                continue
            noise = rounding_noise(roundoff, seed * len(self._ats) + step, self._held_in) if roundoff else None
            start = _OneRoundoff(self._reference, roundoff, seed) if roundoff and step == 0 else None
            observers: list[Observer] = [WideOptimiser(noise)] if isinstance(noise, NarrowNoise) else []
            observers += [LossOnly()] if step == len(self._ats) - 1 else []
            seen = self._reference.step(at, *observers, inside=noise, go_on=step > 0, first=start)
            losses.append(next(iter(seen.players.values())).loss.cpu())
        return losses

    def _simulate(self, roundoff: float) -> list[list[Tensor]]:
        if not self._simulated:
            self._simulated = [self._losses(roundoff, seed) for seed in range(SAMPLES)]
        return self._simulated


class WideOptimiser(Observer):
    """Gives the optimiser the range of the weights, which are never float16: in float16's, Adam would divide 0 by 0."""

    def __init__(self, noise: NarrowNoise) -> None:
        self._noise = noise

    def given(self, player: Player) -> None:
        """Leave the narrow range."""
        self._noise.narrow = False

    def update(self, player: Player) -> None:
        """Go back to it."""
        self._noise.narrow = True


class LossOnly(Observer):
    """Ends a batch at its first loss: nothing is asked of the last backward pass."""

    def loss(self, player: Player, loss: Tensor) -> bool:
        """Stop."""
        return True


class _OneRoundoff:
    """Moves every weight by one unit roundoff, up or down."""

    def __init__(self, rerun: Rerun, roundoff: float, seed: int) -> None:
        self._model = rerun.stepper.model
        self._roundoff = roundoff
        self._generator = torch.Generator().manual_seed(seed)

    def __call__(self) -> None:
        with torch.no_grad():
            for parameter in self._model.parameters():
                sign = torch.randint(0, 2, parameter.shape, generator=self._generator).mul_(2).sub_(1)
                parameter.mul_(1 + self._roundoff * sign.to(parameter.dtype))
