"""Trainables for trials with several workers."""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from ablate.trial.draw import Draw
from ablate.trial.protocol import Batch, Carry, Place, Player

ROWS = 10
WORK_S = 2.0
"""Processor time that the fault ``work`` takes."""


def worker() -> int:
    """Return which worker this process is; 0 also where there is one."""
    return torch.distributed.get_rank() if torch.distributed.is_initialized() else 0


class Shared:
    """A small network. ``fault`` happens in worker ``who`` alone, in the loss of batch ``at``.

    If ``once`` names a file, it happens only where there is none, and then there is one.
    """

    independent_rows = True
    mean_over_rows = True

    def __init__(
        self, *, rows: int = ROWS, fault: str = "", at: int = 2, who: int = 1, step_s: float = 0.0, once: str = ""
    ) -> None:
        self.once = once
        self.rows, self.fault, self.at, self.who, self.step_s = rows, fault, at, who, step_s
        self.steps = 0

    def prepare(self) -> str:
        return "drawn"

    def build(self) -> nn.Module:
        extra = {"batch norm": [nn.BatchNorm1d(6)], "dropout": [nn.Dropout(0.5)]}.get(self.fault, [])
        return nn.Sequential(nn.Linear(3, 6), nn.Tanh(), *extra, nn.Linear(6, 2))

    def batches(self, draw: Draw) -> Iterator[Batch]:
        for number in itertools.count():
            first = number * self.rows
            x = draw("x").normal((self.rows, 3))
            if self.fault == "other data" and number == self.at and worker() == self.who:
                x = x + 1
            index = np.arange(first, first + self.rows)
            if self.fault == "other order" and number == self.at and worker() == self.who:
                index = index[::-1].copy()
            yield Batch(index, {"x": x, "y": draw("y").normal((self.rows, 2))})

    def players(self, model: nn.Module) -> list[Player]:
        return [Player("all", dict(model.named_parameters()), torch.optim.Adam(model.parameters(), lr=0.01))]

    def loss(self, model: nn.Module, batch: Batch, carry: Carry) -> tuple[Any, Carry]:
        first = int(batch.index[0]) // self.rows
        if self.fault and first == self.at and worker() == self.who and "alive" not in os.environ:
            if not self.once:
                self.misbehave()
            elif not Path(self.once).exists():
                Path(self.once).touch()
                self.misbehave()
        if self.step_s and "alive" not in os.environ:
            time.sleep(self.step_s)
        errors = (model(batch.tensors["x"]) - batch.tensors["y"]).square()
        loss = errors.sum() if self.fault == "sum" else errors.mean()
        if self.fault == "not finite" and first == self.at and worker() == self.who:
            loss = loss * float("nan")
        return loss, {"largest": errors.detach().mean()}

    def misbehave(self) -> None:
        match self.fault:
            case "raise":
                raise ValueError("the user's own mistake")
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "exit":
                os._exit(7)
            case "work":
                began = time.process_time()
                while time.process_time() - began < WORK_S:
                    pass
            case "hang":
                while True:
                    time.sleep(60)

    def after_step(self, model: nn.Module, player: Player) -> None:
        self.steps += 1

    def metrics(self, carry: Carry) -> dict[str, Any]:
        return {"error": carry["largest"]}

    def state(self) -> dict[str, Any]:
        return {"steps": self.steps}

    def restore(self, state: dict[str, Any]) -> None:
        self.steps = state["steps"]

    def evaluate(self, model: nn.Module, place: Place) -> dict[str, float]:
        return {"out": float(model(place(torch.ones(4, 3))).sum())}


class Undeclared(Shared):
    """Says nothing of its rows."""

    mean_over_rows = False


class Two(Shared):
    """Two players, whose losses use parameters of each other, and one parameter that no loss uses."""

    def build(self) -> nn.Module:
        return nn.ModuleDict({"one": nn.Linear(3, 4), "two": nn.Linear(4, 1), "idle": nn.Linear(2, 2)})

    def players(self, model: nn.Module) -> list[Player]:
        def loss(sign: float) -> Any:
            def of(model: Any, batch: Batch, carry: Carry) -> tuple[Any, Carry]:
                return sign * model["two"](torch.tanh(model["one"](batch.tensors["x"]))).square().mean(), None

            return of

        named = {name: dict(model[name].named_parameters()) for name in ("one", "two")}  # type: ignore[index]
        named["two"] |= {f"idle.{name}": p for name, p in model["idle"].named_parameters()}  # type: ignore[index]
        return [
            Player(name, found, torch.optim.SGD(found.values(), lr=0.05), loss(sign))
            for (name, found), sign in zip(named.items(), (1.0, -1.0), strict=True)
        ]

    def metrics(self, carry: Carry) -> dict[str, Any]:
        return {}

    def evaluate(self, model: nn.Module, place: Place) -> dict[str, float]:
        return {"out": float(model["one"](place(torch.ones(4, 3))).sum())}  # type: ignore[index]
