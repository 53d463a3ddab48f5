"""Audited trainables by the layers that they are made of."""

from __future__ import annotations

from typing import Any

import torch
from audited_mlp import ROWS, Mlp
from torch import Tensor, nn
from torch.nn import functional as F

from ablate.trial.draw import Draw
from ablate.trial.protocol import Batch, Carry


class Conv(Mlp):
    def net(self) -> nn.Module:
        head = [nn.Flatten(), nn.Linear(5 * 16, 1)]
        return nn.Sequential(
            nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 5, 3, padding=1), *head
        )

    def shape(self) -> tuple[int, ...]:
        return (ROWS, 2, 8, 8)


class ZeroHead(Mlp):
    """Begins with zeros only in its last layer, and in half of the one before."""

    def net(self) -> nn.Module:
        layers = super().net()
        with torch.no_grad():
            layers[2].weight[::2] = 0.0
            for parameter in layers[4].parameters():
                parameter.zero_()
        return layers


class BatchNorm(Mlp):
    """The gradient of the bias before it is 0 but for rounding."""

    optimiser = torch.optim.NAdam

    def net(self) -> nn.Module:
        norm = nn.BatchNorm1d(8, momentum=0.0 if self.fault == "stale buffer" else 0.1)
        return nn.Sequential(nn.Linear(6, 8), norm, nn.ReLU(), nn.Linear(8, 1))


class Lstm(Mlp):
    """Its state is carried from batch to batch, detached."""

    independent_rows = False

    def net(self) -> nn.Module:
        return nn.ModuleDict({"cell": nn.LSTM(6, 8), "head": nn.Linear(8, 1)})

    def shape(self) -> tuple[int, ...]:
        return (5, ROWS, 6)

    def predict(self, model: Any, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        state = (carry["h"], carry["c"]) if carry else None
        if state and self.fault == "carry":
            state = (state[0] * (1 + self.size), state[1])
        if state and self.fault == "forgotten carry":
            state = None
        outputs, (h, c) = model["cell"](batch.tensors["x"], state)
        if self.fault == "attached carry":
            return model["head"](outputs[-1]), {"h": h, "c": c}
        return model["head"](outputs[-1]), {"h": h.detach(), "c": c.detach()}


class Attention(Mlp):
    def net(self) -> nn.Module:
        parts = {
            "attend": nn.MultiheadAttention(8, 2, batch_first=True),
            "norm": nn.LayerNorm(8),
            "head": nn.Linear(8, 1),
        }
        return nn.ModuleDict(parts)

    def shape(self) -> tuple[int, ...]:
        return (ROWS, 5, 8)

    def predict(self, model: Any, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        x = batch.tensors["x"]
        seen, _ = model["attend"](x, x, x, need_weights=False)
        more = F.scaled_dot_product_attention(seen, x, x, is_causal=True)
        return model["head"](model["norm"](seen + more).mean(1)), None


class Dropout(Mlp):
    """Draws its masks from torch's global generator."""

    def net(self) -> nn.Module:
        return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 1))

    def predict(self, model: Any, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        if self.fault == "eval mode":
            model.eval()
        return super().predict(model, batch, carry)


class SelfCompiled(Dropout):
    """Compiles its layers itself, if it is told to, with torch's own settings: the masks are then inductor's."""

    def __init__(self, *, compiled: bool = False, **settings: Any) -> None:
        super().__init__(**settings)
        self.compiled = compiled

    def build(self) -> nn.Module:
        model = super().build()
        self.fast = torch.compile(model)
        return model

    def layers(self, model: Any, x: Tensor) -> Tensor:
        return self.fast(x) if self.compiled else super().layers(model, x)


class DrawnDropout(Mlp):
    """Draws its masks from a named stream, in ``batches``."""

    def net(self) -> nn.Module:
        return nn.Sequential(nn.Linear(6, 16), nn.Linear(16, 1))

    def more(self, draw: Draw) -> dict[str, Tensor]:
        return {"mask": (draw("mask").uniform((ROWS, 16)) < 0.7).float() / 0.7}

    def predict(self, model: Any, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        return model[1](model[0](batch.tensors["x"]).relu() * batch.tensors["mask"]), None


class Tied(Mlp):
    """One matrix is used forwards and, transposed, backwards."""

    optimiser = torch.optim.RMSprop

    def net(self) -> nn.Module:
        return nn.ModuleDict({"code": nn.Linear(6, 6), "head": nn.Linear(6, 1)})

    def predict(self, model: Any, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        code = torch.tanh(model["code"](batch.tensors["x"]))
        return model["head"](F.linear(code, model["code"].weight.t())), None


class Accumulated(Mlp):
    """Three micro-batches, each with a graph of its own, in one loss."""

    def predict(self, model: Any, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        return torch.cat([model(part) for part in batch.tensors["x"].chunk(3)]), None


class Sparse(Mlp):
    """Looks words up; the gradient of the table is sparse."""

    optimiser = torch.optim.SGD

    def net(self) -> nn.Module:
        return nn.ModuleDict({"table": nn.Embedding(20, 6, sparse=True), "head": nn.Linear(6, 1)})

    def more(self, draw: Draw) -> dict[str, Tensor]:
        return {"words": (draw("words").uniform((ROWS, 4)) * 20).long()}

    def predict(self, model: Any, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        return model["head"](model["table"](batch.tensors["words"]).mean(1)), None
