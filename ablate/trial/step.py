"""One batch of a structured trainable: what training and audits both step through.

Per batch, each player in order: zero gradients, loss, backward, ``after_backward``, declared noise, step,
``after_step``. Whoever looks on is an ``Observer``; it changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ablate.trial.contract import check_graph, checked_loss, checked_players
from ablate.trial.fingerprint import state
from ablate.trial.protocol import Batch, Carry, Loss, Player

Stop = bool


class Observer:
    """Looks on while a batch is stepped; each method is called once per player, in this order."""

    def loss(self, player: Player, loss: Tensor) -> Stop:
        """Take the loss before its backward; return whether to stop the batch here."""
        return False

    def slope(self, player: Player) -> None:
        """Look at the gradients as backward left them."""

    def gradient(self, player: Player) -> None:
        """Look at the gradients after ``after_backward``."""

    def given(self, player: Player) -> None:
        """Look at the gradients that the optimiser is about to use, with the arm's declared noise."""

    def update(self, player: Player) -> None:
        """Look at the parameters after the step and ``after_step``."""


class Stepper:
    """A trainable with its model, players and carries, at one point of its training.

    Attributes:
        trainable: the user's.
        model: its model, with whatever weights it has now.
        players: in the order they are stepped.
        carries: what each player's loss hands to its next batch.
        disturb: the arm's declared gradient noise; None without.
    """

    def __init__(
        self,
        trainable: Any,
        model: nn.Module,
        compiled: Callable[[Loss], Loss] = lambda loss: loss,
        disturb: Callable[[Player], None] | None = None,
    ) -> None:
        self.trainable = trainable
        self.model = model
        self.players = checked_players(trainable.players(model))
        self.carries: dict[str, Carry] = {player.name: None for player in self.players}
        self.disturb = disturb
        self._loss = {player.name: compiled(player.loss or trainable.loss) for player in self.players}
        self._after_backward = getattr(trainable, "after_backward", None)
        self._after_step = getattr(trainable, "after_step", None)

    def loss(self, player: Player, batch: Batch) -> tuple[Tensor, Carry]:
        """Return a player's loss with its graph, and its next carry, which is not kept.

        Raises:
            TrainableError: if it is no such pair.
        """
        return checked_loss(self._loss[player.name](self.model, batch, self.carries[player.name]), player)

    def step(self, batch: Batch, *observers: Observer) -> None:
        """Train on one batch.

        Args:
            batch: placed on the model's device, in its precision.
            observers: told in the order given.
        """
        for player in self.players:
            player.optimiser.zero_grad(set_to_none=True)
            loss, self.carries[player.name] = self.loss(player, batch)
            told = self.told(loss)
            stops = [observer.loss(player, told) for observer in observers]  # every one is told
            if any(stops):
                return
            check_graph(loss, player)
            self.summand(loss).backward()  # type: ignore[no-untyped-call]
            del loss, told
            for observer in observers:
                observer.slope(player)
            if self._after_backward:
                self._after_backward(self.model, player)
            for observer in observers:
                observer.gradient(player)
            if self.disturb:
                self.disturb(player)
            for observer in observers:
                observer.given(player)
            self.optimise(player)
            for observer in observers:
                observer.update(player)

    def told(self, loss: Tensor) -> Tensor:
        """Return a loss as observers are to see it."""
        return loss

    def summand(self, loss: Tensor) -> Tensor:
        """Return what backward goes through."""
        return loss

    def optimise(self, player: Player) -> None:
        """Step one player by the gradients that its parameters hold."""
        player.optimiser.step()
        if self._after_step:
            self._after_step(self.model, player)

    def collect(self) -> dict[str, Any]:
        """Return the state that the next batch starts from; its tensors are those in use, not copies."""
        trainable = self.trainable
        return {
            "model": {name: tensor.detach() for name, tensor in state(self.model).items()},
            "optimisers": {player.name: player.optimiser.state_dict() for player in self.players},
            "carries": self.carries,
            "trainable": trainable.state() if hasattr(trainable, "state") else None,
        }

    def restore(self, stored: Mapping[str, Any]) -> None:
        """Go to where ``collect`` was called, in this model's precision and on its device."""
        with torch.no_grad():
            for name, tensor in state(self.model).items():
                tensor.copy_(stored["model"][name])
        for player in self.players:
            player.optimiser.load_state_dict(stored["optimisers"][player.name])
        if stored["trainable"] is not None:
            self.trainable.restore(stored["trainable"])
        self.carries = dict(stored["carries"])
