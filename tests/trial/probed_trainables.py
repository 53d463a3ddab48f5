"""Trainables whose curvature is known or hard to have, for the tests of probes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ablate.trial.draw import Draw
from ablate.trial.protocol import Batch, Carry, Player


class Quadratic:
    """w' A w / 2 with eigenvalues 1 to n-1 and -0.5, whatever the batch; n beyond what is computed whole, if asked."""

    def __init__(self, *, n: int = 6, lr: float = 0.01, momentum: float = 0.0, ends: int = -1, fail: str = "") -> None:
        self.n, self.lr, self.momentum, self.ends, self.fail = n, lr, momentum, ends, fail

    def build(self) -> nn.Module:
        model = nn.Linear(self.n, 1, bias=False)
        nn.init.constant_(model.weight, 0.1)
        return model

    def batches(self, draw: Draw) -> Iterator[Batch]:
        k = 0
        while k != self.ends:
            yield Batch(np.array([k, k + 1]), {"x": draw("x").normal((2, 1))})
            k += 1

    def players(self, model: nn.Module) -> list[Player]:
        optimiser = torch.optim.SGD(model.parameters(), lr=self.lr, momentum=self.momentum)
        return [Player("all", dict(model.named_parameters()), optimiser)]

    def loss(self, model: Any, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        w = model.weight[0]
        spectrum = torch.arange(self.n, dtype=w.dtype, device=w.device)
        spectrum[0] = -0.5
        loss = (spectrum * w * w).sum() / 2 + 5
        if self.fail == "nan" and w.dtype is torch.float64:
            loss = loss * float("nan")
        if self.fail == "raise" and w.dtype is torch.float64:
            raise ValueError("the user's own mistake")
        if self.fail == "once":
            loss = loss + Once.apply(w).sum()
        return loss, carry


class Once(torch.autograd.Function):
    """A cube whose backward cannot be differentiated."""

    @staticmethod
    def forward(ctx: Any, w: Tensor) -> Tensor:  # type: ignore[override]
        ctx.save_for_backward(w)
        return w**3

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, above: Tensor) -> Tensor:  # type: ignore[override]
        (w,) = ctx.saved_tensors
        return 3 * w**2 * above


class Bilinear(Quadratic):
    """Two players, x y / x' y: a game that only turns: eigenvalues +i and -i. Each one's own Hessian is zero."""

    def build(self) -> nn.Module:
        return nn.ModuleDict({"x": nn.Linear(1, 1, bias=False), "y": nn.Linear(1, 1, bias=False)})

    def players(self, model: Any) -> list[Player]:
        def one(name: str, sign: float) -> Player:
            optimiser = torch.optim.SGD(model[name].parameters(), lr=self.lr)
            return Player(name, dict(model[name].named_parameters()), optimiser, lambda m, b, c: (sign * both(m), c))

        def both(m: Any) -> Tensor:
            detach = self.fail == "detach"
            y = m["y"].weight.detach() if detach else m["y"].weight
            return (m["x"].weight * y).sum() + (m["x"].weight.detach() * m["y"].weight).sum() * float(detach)

        return [one("x", 1.0), one("y", -1.0)]


class Frozen(Quadratic):
    """Its optimiser steps none of the model's parameters."""

    def players(self, model: Any) -> list[Player]:
        own = nn.Parameter(torch.zeros(1))
        return [Player("other", {"own": own}, torch.optim.SGD([own], lr=1.0), lambda m, b, c: (own.sum(), c))]


class Aliased(Quadratic):
    """Writes two targets into one buffer: sum of w^2 t^2 / 2 for t = 1 and 3, whose backward sees the second only."""

    def loss(self, model: Any, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        w = model.weight[0]
        buffer = np.zeros(self.n, dtype=str(w.dtype).removeprefix("torch."))
        loss = torch.zeros((), dtype=w.dtype)
        for t in (1.0, 3.0):
            buffer[:] = t
            loss = loss + (w * torch.from_numpy(buffer)).square().sum() / 2
        return loss, carry
