"""One batch, stepped by several processes: each computes its rows' loss, DistributedDataParallel averages gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from ablate.trial.contract import checked_loss
from ablate.trial.protocol import Batch, Carry, Loss, Player
from ablate.trial.ranks import Ranks
from ablate.trial.step import Stepper
from ablate.trial.workers import check_uncoupled, share, weights


class LossModule(nn.Module):
    """A player's loss as a module of that player's parameters alone.

    So what a trainable's loss calls is its own affair, and players share no gradient.

    Attributes:
        carry: what the last call hands to the next batch. It is no output: DistributedDataParallel would put it into
            the graph.
    """

    def __init__(self, player: Player, loss: Loss, model: nn.Module) -> None:
        super().__init__()
        for position, parameter in enumerate(player.parameters.values()):
            self.register_parameter(f"parameter_{position}", parameter)
        self.carry: Carry = None
        self._given: tuple[Callable[[Batch, Carry], Any], Player] = (lambda *at: loss(model, *at), player)

    def forward(self, batch: Batch, carry: Carry) -> Tensor:
        """Return the loss of a worker's rows."""
        call, player = self._given
        loss, self.carry = checked_loss(call(batch, carry), player)
        return loss


class WorkerStepper(Stepper):
    """A stepper that computes its share of each batch it is given, and makes the step of the whole batch.

    Gradients after backward, and what observers are told of a loss, are the whole batch's. A gradient is summed in the
    arm's precision; a loss in float64, and then rounded to the precision that the trainable's has.
    """

    def __init__(
        self, trainable: Any, model: nn.Module, ranks: Ranks, disturb: Callable[[Player], None] | None = None
    ) -> None:
        super().__init__(trainable, model, disturb=disturb)
        check_uncoupled(model)
        self._ranks = ranks
        self._rows = 0
        # what a loss does not use is found anew in each batch; buckets then stay as they were made, so that a resume
        # sums in the same order
        self._parallel = {
            player.name: DistributedDataParallel(
                LossModule(player, self._loss[player.name], model), find_unused_parameters=True
            )
            for player in self.players
        }

    def loss(self, player: Player, batch: Batch) -> tuple[Tensor, Carry]:
        """Return the loss of this worker's rows, with its graph, and its carry."""
        mine = share(batch, self._ranks.number, self._ranks.workers)
        self._rows = len(batch.index)
        parallel = self._parallel[player.name]
        loss: Tensor = parallel(mine, self.carries[player.name])
        return loss, parallel.module.carry

    def told(self, loss: Tensor) -> Tensor:
        """Return the whole batch's loss."""
        return self._ranks.mean(loss.reshape(1), self._rows).to(loss.dtype).reshape(loss.shape)

    def summand(self, loss: Tensor) -> Tensor:
        """Return what backward goes through: DistributedDataParallel weighs all workers alike, whatever their rows."""
        workers = self._ranks.workers
        mine = weights(self._rows, workers)[self._ranks.number]
        return loss if mine * workers == self._rows else loss * (mine * workers / self._rows)
