"""The loop for structured trainables: the only place where a shipped model's batch is stepped."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from ablate.errors import Problem
from ablate.trial.compiled import maybe_compiled
from ablate.trial.fingerprint import state
from ablate.trial.gallery import Gallery
from ablate.trial.pending import Value
from ablate.trial.protocol import Player
from ablate.trial.resume import Resume
from ablate.trial.session import Session, TrainableError


def train(trainable: Any, session: Session, resume: Resume) -> dict[str, float]:
    """Run every batch of the trial; return the held-out outcomes of ``evaluate()``, empty without one.

    Per batch, each player in order: zero gradients, loss, backward, ``after_backward``, step, ``after_step``. The
    recorded loss is the first player's, before its step; further players' are metrics ``loss_<player>``.

    Raises:
        TrainableError: a broken contract.
        Diverged: a loss that is not finite.
    """
    model = session.adopt(trainable.build())
    players = trainable.players(model)
    after_backward = getattr(trainable, "after_backward", None)
    after_step = getattr(trainable, "after_step", None)
    numerics = session.spec.numerics
    compute = {player.name: maybe_compiled(player.loss or trainable.loss, numerics) for player in players}
    carries: dict[str, Any] = {player.name: None for player in players}
    batches = iter(trainable.batches(session.draw))
    gallery = Gallery(session)
    look = (lambda: trainable.look(model, session.place)) if hasattr(trainable, "look") else None
    resume.take_over()
    for _ in range(resume.batches):  # the data's position is reached by drawing, not by training
        next(batches)
    if stored := resume.restore():
        carries = _load(stored, trainable, model, players)
    while session.batch_index < session.spec.batches:
        with session.drawing("batches()"):
            batch = next(batches, None)
        if batch is None:
            raise TrainableError(
                Problem(
                    f"batch {session.batch_index}",
                    f"batches() ended after {session.batch_index} of {session.spec.batches}",
                    advice="It must yield without end: start the data again.",
                )
            )
        placed = session.receive(batch)
        losses: list[Value] = []
        with session.watched(), session.drawing("the step"):
            for player in players:
                player.optimiser.zero_grad(set_to_none=True)
                loss, carries[player.name] = compute[player.name](model, placed, carries[player.name])
                losses.append(session.take(loss))
                if isinstance(losses[-1], float) and not math.isfinite(losses[-1]):
                    break  # a loss on the device is looked at when it is read
                loss.backward()
                if after_backward:
                    after_backward(model, player)
                gallery.gradients(player)
                player.optimiser.step()
                if after_step:
                    after_step(model, player)
                del loss
        further = {f"loss_{player.name}": value for player, value in zip(players[1:], losses[1:], strict=False)}
        metrics = trainable.metrics(carries[players[0].name]) if hasattr(trainable, "metrics") else {}
        session.record(losses[0], metrics, further)
        gallery.finish(look)
        resume.offer(lambda: _collect(trainable, model, players, carries))
    if not hasattr(trainable, "evaluate"):
        return {}
    with torch.no_grad():
        return {name: float(value) for name, value in trainable.evaluate(model, session.place).items()}


def _collect(trainable: Any, model: nn.Module, players: list[Player], carries: dict[str, Any]) -> dict[str, Any]:
    return {
        "model": {name: tensor.detach() for name, tensor in state(model).items()},
        "optimisers": {player.name: player.optimiser.state_dict() for player in players},
        "carries": carries,
        "trainable": trainable.state() if hasattr(trainable, "state") else None,
    }


def _load(stored: Mapping[str, Any], trainable: Any, model: nn.Module, players: list[Player]) -> dict[str, Any]:
    """Put back what ``_collect`` stored and return the carries."""
    with torch.no_grad():
        for name, tensor in state(model).items():
            tensor.copy_(stored["model"][name])
    for player in players:
        player.optimiser.load_state_dict(stored["optimisers"][player.name])
    if stored["trainable"] is not None:
        trainable.restore(stored["trainable"])
    return dict(stored["carries"])
