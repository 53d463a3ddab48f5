"""The plainest audited trainable: others change a method or two of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from planted_faults import Passes, nudge, plant, players_with, target, truncated
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from ablate.trial.draw import Draw
from ablate.trial.protocol import Batch, Carry, Player

ROWS = 12


class Mlp:
    """Regression with a small penalty on the output's bias; the other architectures change a method or two.

    Args:
        fault: what is planted, see ``planted_faults``.
        size: how large it is, relative to what is right.
        order: 1 reverses the rows of each batch, so that another data order is seen.
        bits: of mantissa that the factors of each matrix product keep, in every precision; 0 for all.
    """

    optimiser: Any = torch.optim.Adam
    independent_rows = True

    def __init__(self, *, fault: str = "none", size: float = 0.01, order: int = 0, bits: int = 0) -> None:
        self.fault, self.size, self.order, self.bits = fault, size, order, bits

    def net(self) -> nn.Module:
        return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1))

    def shape(self) -> tuple[int, ...]:
        return (ROWS, 6)

    def prepare(self) -> str:
        return "drawn"

    def build(self) -> nn.Module:
        if self.fault == "own weights":
            torch.set_default_dtype(torch.float64)
        try:
            self.model = self.net()
        finally:
            if self.fault == "own weights":
                torch.set_default_dtype(torch.float32)
        self.model.float()
        plant(self.model, self.fault, self.size)
        return self.model

    def batches(self, draw: Draw) -> Iterator[Batch]:
        for k in range(10**6):
            if self.fault == "nudge" and k:
                nudge(self.model, self.size)
            tensors = {"x": draw("x").normal(self.shape()), "y": draw("y").uniform((ROWS, 1)), **self.more(draw)}
            index = np.arange(ROWS) + ROWS * k
            if self.order:
                index, tensors = index[::-1].copy(), {name: t.flip(0) for name, t in tensors.items()}
            yield Batch(index, tensors)

    def more(self, draw: Draw) -> dict[str, Tensor]:
        return {}

    def players(self, model: nn.Module) -> list[Player]:
        return players_with(self.optimiser, dict(model.named_parameters()), self.fault, self.size)

    def predict(self, model: Any, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        return self.layers(model, batch.tensors["x"]), None

    def layers(self, model: Any, x: Tensor) -> Tensor:
        """The layers in a row, with the inputs of each product cut to ``bits``."""
        for layer in model if self.bits else [model]:
            if self.bits and layer._parameters.get("weight") is not None and layer.weight.dim() > 1:
                weight, x = truncated(layer.weight, self.bits), truncated(x, self.bits)
                x = functional_call(layer, {"weight": weight, "bias": layer.bias}, (x,))
            else:
                x = layer(x)
        return x

    def loss(self, model: nn.Module, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        found, carry = self.predict(model, batch, carry)
        if self.fault in Passes:
            found = Passes[self.fault](found, self.size)
        wanted = target(batch.tensors["y"], self.fault)
        loss = F.mse_loss(found, wanted, reduction="sum" if self.fault == "reduction" else "mean")
        if self.fault == "broadcast":
            loss = (found - wanted[:, 0]).square().mean()
        if self.fault != "term":
            loss = loss + 0.1 * last(model).square().sum()
        if self.fault == "loss scale":  # multiplied by 1024 and divided by 1000
            loss = loss + (loss - loss.detach()) * 0.024
        if self.fault == "overwritten":
            wanted.detach().numpy()[:] = 0.25
        return loss, carry

    def after_step(self, model: nn.Module, player: Player) -> None:
        if self.fault == "stepped twice":
            player.optimiser.step()


def last(model: nn.Module) -> nn.Parameter:
    return list(model.parameters())[-1]
