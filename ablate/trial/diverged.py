"""A batch whose loss is not finite, held against float64: did a type overflow, or is something wrong?

The trial ends there, without gradients, so only the loss is compared: that of the player that it ended at.
"""

from __future__ import annotations

import math

import torch

from ablate.audit.distance import Distance, judge
from ablate.audit.measured import measure
from ablate.audit.narrow_noise import NARROW
from ablate.audit.range_seen import RangeSeen
from ablate.trial.local_audit import ArmsOwn
from ablate.trial.protocol import Player
from ablate.trial.rerun import Rerun
from ablate.trial.reruns import ArmPrecision
from ablate.trial.seen import Seen
from ablate.trial.snapshot import Snapshot
from ablate.trial.step import Observer


class EndsAt(Observer):
    """Ends a batch at one player's loss."""

    def __init__(self, name: str) -> None:
        self._name = name

    def loss(self, player: Player, loss: torch.Tensor) -> bool:
        """Say whether it is that player's."""
        return player.name == self._name


def ended_at(seen: Seen) -> str | None:
    """Return the first player whose loss is not finite."""
    return next((name for name, one in seen.players.items() if not math.isfinite(one.loss.item())), None)


def judge_ended(at: Snapshot, seen: Seen, reference: Rerun, precision: ArmPrecision, name: str) -> Distance:
    """Judge the loss that a trial ended at.

    Args:
        at: what the batch started from.
        seen: what the arm's step gave until then.
        reference: the float64 stepper.
        precision: of the arm's arithmetic.
        name: the player that it ended at.
    """
    loss = seen.players[name].loss
    own = ArmsOwn(reference.stepper, seen)

    def beyond() -> str:
        look = RangeSeen(precision.held_in if precision.held_in in NARROW else loss.dtype)
        reference.step(at, own, EndsAt(name), inside=look)
        return look.beyond if math.isnan(loss.item()) else look.overflow  # what underflows gives no infinity

    exact = reference.step(at, own, EndsAt(name)).players[name].loss
    return judge(
        measure("loss", name, loss.cpu(), exact),
        roundoff=precision.roundoff,
        reduction=1,
        beyond_range=beyond,
        held_in=precision.held_in,
    )
