"""The slope check on a trainable: its own code in float64, aliases and all, against its loss evaluated anew.

A loss that stops a gradient on purpose (``detach``, a target network, a straight-through estimator) has a gradient that
is not its slope. So before a fault is reported the gradient is made again with ``detach`` and ``.data`` passing it on:
if that one is the slope, the loss stops it there, by intent or not, and that is what is said.

A loss that casts to a coarse type, or cuts mantissas, does so in float64 too: it moves in steps, and is flat between
them, so its slope says nothing about its gradient.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ablate.audit.nearby import here, source
from ablate.audit.precision_seen import PrecisionSeen
from ablate.audit.roundoff import FLOAT32
from ablate.audit.slope import SlopeResult, slope_check
from ablate.trial import checkpoint
from ablate.trial.protocol import Batch, Player
from ablate.trial.seen import gradients
from ablate.trial.step import Observer, Stepper

SEED = 0


SEARCH = 400
ONE_LOOK = 60
"""Forward passes: a clean check takes 12, with kinks in the way a few more; naming one parameter 80 to 250."""


class SlopeAudit(Observer):
    """Checks each player's gradient as backward leaves it; ``results`` are by player, ``stopped`` says where.

    Args:
        stepper: the arm's own code in float64.
        batch: the audited batch, in float64.
        search: whether to find out which parameters a fault is in; not where something else names it.
    """

    def __init__(self, stepper: Stepper, batch: Batch, search: bool = True) -> None:
        self.results: dict[str, SlopeResult] = {}
        self.stopped: dict[str, tuple[str, ...]] = {}
        self._stepper = stepper
        self._batch = batch
        self._forwards = SEARCH if search else ONE_LOOK
        self._carries = dict(stepper.carries)
        self._generators: dict[str, Any] = {}
        self._buffers: dict[str, Tensor] = {}

    def begin(self) -> None:
        """Remember what the batch starts from; call it when the stepper stands there."""
        self._carries = dict(self._stepper.carries)
        self._remember()

    def slope(self, player: Player) -> None:
        """Check one player; parameters, buffers and generators are then as before."""
        after = checkpoint.global_generators()
        buffers = {name: buffer.detach().clone() for name, buffer in self._stepper.model.named_buffers()}
        parameters = {name: parameter.detach() for name, parameter in player.parameters.items()}
        self.results[player.name] = result = self._check(player, parameters, gradients(player), self._forwards)
        if result.verdict == "bug":
            passed = PassedOn()
            given = self._gradients(player, passed)
            again = self._check(player, parameters, given, ONE_LOOK) if passed.sources else result
            if again.verdict == "clean":
                self.results[player.name] = again
                self.stopped[player.name] = tuple(dict.fromkeys(passed.sources))
            elif coarse := self._coarse(player):
                self.results[player.name] = replace(result, verdict="unjudged", bugs=(), detail=coarse)
        self._put(buffers)
        checkpoint.restore_generators(after)

    def update(self, player: Player) -> None:
        """Remember what the next player's loss starts from."""
        self._remember()

    def _check(
        self, player: Player, parameters: dict[str, Tensor], given: dict[str, Tensor | None], forwards: int
    ) -> SlopeResult:
        plain = {name: g if g is None or g.layout is torch.strided else g.to_dense() for name, g in given.items()}
        return slope_check(lambda: self._loss(player), parameters, plain, SEED, most_forwards=forwards)

    def _loss(self, player: Player) -> float:
        try:
            with torch.no_grad():
                return float(self._evaluate(player))
        except RuntimeError:  # a gradient penalty differentiates inside the loss
            with torch.enable_grad():
                return float(self._evaluate(player).detach())

    def _evaluate(self, player: Player) -> Tensor:
        checkpoint.restore_generators(self._generators)
        self._put(self._buffers)
        kept, self._stepper.carries = self._stepper.carries, dict(self._carries)
        try:
            return self._stepper.loss(player, self._batch)[0]
        finally:
            self._stepper.carries = kept

    def _gradients(self, player: Player, passed: PassedOn) -> dict[str, Tensor | None]:
        with torch.enable_grad(), passed:
            loss = self._evaluate(player)
        found = torch.autograd.grad(loss, list(player.parameters.values()), allow_unused=True)
        return dict(zip(player.parameters, found, strict=True))

    def _coarse(self, player: Player) -> str:
        """Say where the loss rounds to less than float32 although it is computed in float64; empty if nowhere."""
        looking = PrecisionSeen()
        with torch.enable_grad(), looking:
            self._evaluate(player)
        if looking.roundoff <= FLOAT32:
            return ""
        return (
            f"the loss rounds to {looking.name} even in float64 (at {looking.where or 'an unknown line'}), so it moves "
            "in steps: it has no slope to hold its gradient against"
        )

    def _remember(self) -> None:
        self._generators = checkpoint.global_generators()
        self._buffers = {name: buffer.detach().clone() for name, buffer in self._stepper.model.named_buffers()}

    def _put(self, buffers: dict[str, Tensor]) -> None:
        with torch.no_grad():
            for name, buffer in self._stepper.model.named_buffers():
                buffer.copy_(buffers[name])


class PassedOn(TorchFunctionMode):
    """Lets ``detach`` and ``.data`` pass the gradient on, and keeps the lines where they were asked not to."""

    def __init__(self) -> None:
        super().__init__()
        self.sources: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Return the tensor itself where its gradient would be stopped."""
        stops = func in (Tensor.detach, torch.detach) or func == Tensor.data.__get__  # type: ignore[attr-defined]
        if stops and args[0].requires_grad:
            self.sources.append(source(here()))
            return args[0].view_as(args[0])
        return func(*args, **(kwargs or {}))
