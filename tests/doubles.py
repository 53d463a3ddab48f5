"""Trainables that misbehave on schedule; a batch takes well under a millisecond.

Tests copy this file beside a grid and name ``doubles:Structured`` or ``doubles:train``. Two environment variables turn
it: ``DOUBLES_RAISE_AT_IMPORT`` makes the import raise, ``DOUBLES_WELL`` switches every fault and sleep off, so that
launching again mends a study without another setting or another source.
"""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Iterator

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ablate.errors import BadInput, Problem
from ablate.trial.draw import Draw
from ablate.trial.protocol import Batch, Carry, Player

if os.environ.get("DOUBLES_RAISE_AT_IMPORT"):
    raise RuntimeError("the double raises at import, as it was told")


class Planned(RuntimeError):
    """Raised on schedule."""


def misbehave(fault: str, step_s: float) -> float:
    """Do what the schedule says of this batch; return what the loss is to be multiplied by."""
    if os.environ.get("DOUBLES_WELL"):
        return 1.0
    if step_s:
        time.sleep(step_s)
    match fault:
        case "raise":
            raise Planned("the double raises, as it was told")
        case "not finite":
            return float("nan")
        case "hang":
            while True:
                time.sleep(60)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "exit":
            os._exit(7)
        case "no memory":
            raise MemoryError("the double has no memory, as it was told")
    return 1.0


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1))


class Structured:
    """Its loop is the framework's. ``fault`` happens in the loss of batch ``at``."""

    def __init__(self, *, fault: str = "", at: int = 3, step_s: float = 0.0, data: str = "good") -> None:
        self.fault, self.at, self.step_s, self.data = fault, at, step_s, data

    def prepare(self) -> str:
        if self.data != "good":
            raise BadInput(Problem("data", f"found {self.data!r}", "good"))
        return "drawn"

    def build(self) -> nn.Module:
        return mlp()

    def batches(self, draw: Draw) -> Iterator[Batch]:
        points = draw("points")
        for batch in itertools.count():
            yield Batch(index=np.array([batch]), tensors={"x": points.normal((8, 2))})

    def players(self, model: nn.Module) -> list[Player]:
        return [Player("all", dict(model.named_parameters()), torch.optim.SGD(model.parameters(), lr=0.1))]

    def loss(self, model: nn.Module, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        factor = misbehave(self.fault if batch.index[0] == self.at else "", self.step_s)
        x = batch.tensors["x"]
        return factor * F.mse_loss(model(x), x.sum(1, keepdim=True)), carry


def train(config, ctx):
    """Its loop is its own; the same faults."""
    model = ctx.initialise(mlp())
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    points = ctx.draw("points")
    for batch in range(ctx.batches):
        x = ctx.data([batch], x=points.normal((8, 2)))["x"]
        fault = config.get("fault", "") if batch == config.get("at", 3) else ""
        loss = misbehave(fault, config.get("step_s", 0.0)) * F.mse_loss(model(x), x.sum(1, keepdim=True))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        ctx.batch(loss.detach())
