"""Trainables for the tests of declared perturbations: samples, a convolution, a hook, and loops of their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import nn

from ablate.trial.draw import Draw
from ablate.trial.protocol import Batch, Carry, Player


class Samples:
    """A linear model on rows that are samples; the metrics are its first batch's first row and the batch's sum."""

    independent_rows = True

    def __init__(self, *, rows: int = 6, extra: str = "") -> None:
        self.rows, self.extra = rows, extra

    def prepare(self) -> str:
        return "drawn"

    def build(self) -> nn.Module:
        return nn.Linear(3, 1)

    def batches(self, draw: Draw) -> Iterator[Batch]:
        while True:
            index = draw("order").permutation(self.rows)
            tensors = {"x": draw("x").normal((self.rows, 3)), "y": torch.from_numpy(index.astype(np.float32))[:, None]}
            if self.extra:
                tensors["extra"] = torch.ones(()) if self.extra == "scalar" else torch.ones(self.rows + 1)
            yield Batch(index, tensors)

    def players(self, model: nn.Module) -> list[Player]:
        return [Player("all", dict(model.named_parameters()), torch.optim.SGD(model.parameters(), lr=0.05))]

    def loss(self, model: nn.Module, batch: Batch, carry: Carry) -> tuple[Any, Carry]:
        assert (batch.tensors["y"][:, 0].long().numpy() == batch.index).all()  # every tensor and the index alike
        return (model(batch.tensors["x"]) - batch.tensors["y"]).square().mean(), {"first": int(batch.index[0])}

    def metrics(self, carry: Carry) -> dict[str, float]:
        return {"first": carry["first"]}


class Silent(Samples):
    """Says nothing of its rows."""

    independent_rows = False


class Fixed(Samples):
    """Its hook replaces every gradient by ones, whatever was in it before."""

    def after_backward(self, model: nn.Module, player: Player) -> None:
        for parameter in player.parameters.values():
            assert parameter.grad is not None
            parameter.grad.fill_(1.0)


class Conv(Samples):
    """A convolution on images; its metric says whether images and kernel lie in memory pixel by pixel."""

    def build(self) -> nn.Module:
        return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Conv3d(1, 1, 1))

    def batches(self, draw: Draw) -> Iterator[Batch]:
        while True:
            yield Batch(np.arange(2), {"x": draw("x").normal((2, 3, 6, 5)), "clip": draw("x").normal((2, 1, 2, 3, 3))})

    def loss(self, model: Any, batch: Batch, carry: Carry) -> tuple[Any, Carry]:
        tensors = (batch.tensors["x"], model[0].weight, model[1](model[0](batch.tensors["x"])))
        last = all(tensor.is_contiguous(memory_format=torch.channels_last) for tensor in tensors)
        loss = model[2](batch.tensors["clip"]).square().mean() + tensors[2].square().mean()
        return loss, {"first": float(last)}


def by_hand(config: dict[str, Any], ctx: Any) -> None:
    """Steps without an optimiser of torch."""
    model = ctx.initialise(nn.Linear(3, 1))
    for k in range(ctx.batches):
        loss = model(ctx.data([k], x=ctx.draw("x").normal((5, 3)))["x"]).square().mean()
        loss.backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.1 * parameter.grad
                parameter.grad = None
        ctx.batch(loss)


def with_closure(config: dict[str, Any], ctx: Any) -> None:
    """Hands its optimiser a closure, in which the gradients are made."""
    model = ctx.initialise(nn.Linear(3, 1))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    for k in range(ctx.batches):
        x = ctx.data([k], x=ctx.draw("x").normal((5, 3)))["x"]

        def closure(x: Any = x) -> Any:
            optimiser.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            return loss

        ctx.batch(optimiser.step(closure) if k % 2 else optimiser.step(closure=closure))


def rows_in_a_function(config: dict[str, Any], ctx: Any) -> None:
    """Batches of samples, in a loop of its own."""
    model = ctx.initialise(nn.Linear(3, 1))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(ctx.batches):
        x = ctx.data(range(6), x=ctx.draw("x").normal((6, 3)))["x"]
        optimiser.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimiser.step()
        ctx.batch(loss, {"first": float(x[0, 0])})


rows_in_a_function.independent_rows = True  # type: ignore[attr-defined]
