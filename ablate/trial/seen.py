"""What one batch gave, copied while it was stepped: losses, gradients and the state after each player's step."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor, nn

from ablate.trial.fingerprint import state
from ablate.trial.protocol import Player
from ablate.trial.step import Observer, Stepper

Gradients = dict[str, Tensor | None]


@dataclass
class PlayerSeen:
    """One player's part of a batch. Gradients are by the names of ``Player.parameters``; None where there is none.

    Attributes:
        loss: before the step.
        gradient: those after ``after_backward``.
        given: those that the optimiser used, with the arm's declared noise; the same tensors without it.
        weights: the player's parameters when the optimiser was called.
        update: how far the step and ``after_step`` moved each, in float64.
        after: parameters and buffers of the whole model after the step.
        buffers: names of the buffers in it.
    """

    loss: Tensor
    gradient: Gradients = field(default_factory=dict)
    given: Gradients = field(default_factory=dict)
    weights: dict[str, Tensor] = field(default_factory=dict)
    update: dict[str, Tensor] = field(default_factory=dict)
    after: dict[str, Tensor] = field(default_factory=dict)
    buffers: tuple[str, ...] = ()


class Seen(Observer):
    """Copies a batch's values. ``players`` holds those whose step was reached, in order."""

    def __init__(self, stepper: Stepper) -> None:
        self.players: dict[str, PlayerSeen] = {}
        self._model: nn.Module = stepper.model
        self._disturbed = stepper.disturb is not None

    def loss(self, player: Player, loss: Tensor) -> bool:
        """Copy the loss; never stop."""
        self.players[player.name] = PlayerSeen(loss.detach().clone())
        return False

    def gradient(self, player: Player) -> None:
        """Copy the gradients after ``after_backward``."""
        self.players[player.name].gradient = gradients(player)

    def given(self, player: Player) -> None:
        """Copy what the optimiser is given, and the state it starts from."""
        seen = self.players[player.name]
        seen.given = gradients(player) if self._disturbed else seen.gradient
        seen.weights = {name: parameter.detach().clone() for name, parameter in player.parameters.items()}

    def update(self, player: Player) -> None:
        """Copy the state after the step."""
        seen = self.players[player.name]
        seen.after = {name: tensor.detach().clone() for name, tensor in state(self._model).items()}
        seen.buffers = tuple(name for name, _ in self._model.named_buffers() if name in seen.after)
        seen.update = {
            name: parameter.detach().cpu().double() - seen.weights[name].cpu().double()
            for name, parameter in player.parameters.items()
        }

    @property
    def complete(self) -> bool:
        """Whether every player that began made its step."""
        return bool(self.players) and all(one.after for one in self.players.values())


def gradients(player: Player) -> Gradients:
    """Return copies of a player's gradients."""
    return {
        name: None if parameter.grad is None else parameter.grad.detach().clone()
        for name, parameter in player.parameters.items()
    }
