"""The slope check on a trainable: its own code in float64, aliases and all, against its loss evaluated anew.

A loss that stops a gradient on purpose (``detach``, a target network, a straight-through estimator) has a gradient that
is not its slope. So before a fault is reported the gradient is made again with ``detach`` and ``.data`` passing it on:
if that one is the slope, the loss stops it there, by intent or not, and that is what is said.

A function of the user's own that is a step in forward and passes a gradient on in backward (a straight-through
estimator) has none to be held against: the parameters behind it are left out, and that is said (``replaced``).

A loss that casts to a coarse type, or cuts mantissas, does so in float64 too: it moves in steps, and is flat between
them, so its slope says nothing about its gradient.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ablate.audit.nearby import here, source
from ablate.audit.precision_seen import PrecisionSeen
from ablate.audit.replaced import STEPS, Replaced, has_replaced, replaced
from ablate.audit.roundoff import FLOAT32
from ablate.audit.slope import NAMED, SlopeResult, slope_check
from ablate.audit.steps import Directions
from ablate.trial import checkpoint
from ablate.trial.protocol import Batch, Player
from ablate.trial.seen import Gradients, gradients
from ablate.trial.step import Observer, Stepper

SEED = 0

SEARCH = 400
ONE_LOOK = 60
"""Forward passes. A clean check takes 12, and some more with kinks in the way; what is left serves to name parameters,
which ``ONE_LOOK`` is not meant to do."""


class SlopeAudit(Observer):
    """Checks each player's gradient as backward leaves it.

    Attributes:
        results: by player; of a player with parameters behind steps, of the others, if there are any.
        stopped: player -> lines where its loss stops a gradient that is otherwise right.
        behind: player -> what cannot be judged, and why.

    Args:
        stepper: the arm's own code in float64.
        batch: the audited batch, in float64.
        search: whether to find out which parameters a fault is in; not where something else names it.
    """

    def __init__(self, stepper: Stepper, batch: Batch, search: bool = True) -> None:
        self.results: dict[str, SlopeResult] = {}
        self.stopped: dict[str, tuple[str, ...]] = {}
        self.behind: dict[str, str] = {}
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
        self._judge(player, gradients(player))
        self._put(buffers)
        checkpoint.restore_generators(after)

    def _judge(self, player: Player, own: Gradients) -> None:
        names: Sequence[str] = tuple(_trained(player))
        if not names:
            return
        result = self._check(player, names, own, ONE_LOOK)
        found: list[Replaced] = []
        if result.verdict != "clean":
            if self._has_replaced(player):
                found = replaced(lambda: self._evaluate(player), partial(_moved, player))
            if behind := _behind(player, [one for one in found if one.step]):
                names = [name for name in names if name not in behind]
                self.behind[player.name] = _of_steps([one.name for one in found if one.step], list(behind))
                if not names:
                    return
            if behind or self._forwards > ONE_LOOK:
                result = self._check(player, names, own, self._forwards)
        self.results[player.name] = result
        if result.verdict != "bug":
            return
        passed = PassedOn()
        try:
            given = self._gradients(player, passed)
        except Exception:  # the user's code does not work where gradients pass everywhere: then that explains nothing
            passed.sources.clear()
        again = self._check(player, names, given, ONE_LOOK) if passed.sources else result
        if again.verdict == "clean":
            self.results[player.name] = again
            self.stopped[player.name] = tuple(dict.fromkeys(passed.sources))
        elif coarse := self._coarse(player):
            self.results[player.name] = replace(result, verdict="unjudged", bugs=(), detail=coarse)
        elif found:
            self.results[player.name] = _named(result, player, found)

    def update(self, player: Player) -> None:
        """Remember what the next player's loss starts from."""
        self._remember()

    def _check(self, player: Player, names: Sequence[str], given: Gradients, forwards: int) -> SlopeResult:
        parameters = {name: player.parameters[name].detach() for name in names}
        dense = {name: _dense(given[name]) for name in names}
        return slope_check(lambda: self._loss(player), parameters, dense, SEED, most_forwards=forwards)

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

    def _gradients(self, player: Player, passed: PassedOn) -> Gradients:
        with torch.enable_grad(), passed:
            loss = self._evaluate(player)
        trained = _trained(player)
        found = torch.autograd.grad(loss, list(trained.values()), allow_unused=True)
        return dict(zip(trained, found, strict=True))

    def _has_replaced(self, player: Player) -> bool:
        with torch.enable_grad():
            return has_replaced(self._evaluate(player))

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


def _trained(player: Player) -> dict[str, torch.nn.Parameter]:
    """Return the parameters that are not frozen: by intent the others have no gradient, though the loss has a slope."""
    return {name: p for name, p in player.parameters.items() if p.requires_grad}


@contextmanager
def _moved(player: Player, step: float) -> Iterator[None]:
    """Move every parameter by so much of its size, along one direction, and put it back."""
    start = {name: p.detach().clone() for name, p in player.parameters.items() if p.numel()}
    directions = Directions({name: p.cpu() for name, p in start.items()}, {}, SEED)
    try:
        with torch.no_grad():
            for name in start:
                player.parameters[name].add_(directions.of(name, 0).to(start[name].device), alpha=step)
        yield
    finally:
        with torch.no_grad():
            for name, value in start.items():
                player.parameters[name].copy_(value)


def _behind(player: Player, functions: Sequence[Replaced]) -> dict[str, list[str]]:
    """Return the parameters whose gradients pass through functions, with the functions' names."""
    found = {
        name: list(dict.fromkeys(one.name for one in functions if id(p) in one.parameters))
        for name, p in player.parameters.items()
    }
    return {name: through for name, through in found.items() if through}


def _of_steps(functions: Sequence[str], parameters: Sequence[str]) -> str:
    steps, names = ", ".join(dict.fromkeys(functions)), _some(parameters)
    return (
        f"the gradient of {steps} is replaced, on purpose (a straight-through estimator) or not: forward is a step "
        f"function, whose output does not follow steps of {STEPS[0]:.0e} and {STEPS[1]:.0e} of the parameters' size, "
        f"so no slope can judge what is behind it: {names}"
    )


def _named(result: SlopeResult, player: Player, found: Sequence[Replaced]) -> SlopeResult:
    """Name the functions that a wrong gradient passed through."""
    through = _behind(player, found)
    bugs = tuple(
        replace(bug, words=f"{bug.words}; it passes through the backward of {_some(through[bug.name])}")
        if bug.name in through
        else bug
        for bug in result.bugs
    )
    return replace(result, bugs=bugs, detail=result.detail.replace(result.bugs[0].words, bugs[0].words, 1))


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")


def _dense(gradient: Tensor | None) -> Tensor | None:
    return gradient if gradient is None or gradient.layout is torch.strided else gradient.to_dense()


class PassedOn(TorchFunctionMode):
    """Lets ``detach`` and ``.data`` pass the gradient on, and keeps the lines where they were asked not to."""

    def __init__(self) -> None:
        super().__init__()
        self.sources: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Return the tensor itself where its gradient would be stopped."""
        stops = func in (Tensor.detach, torch.detach) or func == Tensor.data.__get__  # type: ignore[attr-defined]
        if func in (Tensor.numpy, Tensor.__array__) and args[0].requires_grad:  # it was detached, for this
            return func(args[0].detach(), *args[1:], **(kwargs or {}))
        if stops and args[0].requires_grad:
            self.sources.append(source(here()))
            return args[0].view_as(args[0])
        return func(*args, **(kwargs or {}))
