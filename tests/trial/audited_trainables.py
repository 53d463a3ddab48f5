"""Small structured trainables of many architectures, each right by itself and with a fault planted by a setting.

A fault that the settings of one arm plant is in that arm alone. In the study's settings it is in all arms alike, the
audit's reference too: only the slope check can see it then. ``COMMON`` names those that are meant to be planted so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from audited_layers import (
    Accumulated,
    Attention,
    BatchNorm,
    Conv,
    DrawnDropout,
    Dropout,
    Lstm,
    SelfCompiled,
    Sparse,
    Tied,
    ZeroHead,
)
from audited_mlp import ROWS, Mlp
from planted_faults import plant, players_with
from torch import Tensor, nn
from torch.nn import functional as F

from ablate.trial.draw import Draw
from ablate.trial.protocol import Batch, Carry, Player
from trainables.prednet import PredNet

__all__ = [
    "Accumulated",
    "Attention",
    "BatchNorm",
    "Conv",
    "DrawnDropout",
    "Dropout",
    "Lstm",
    "SelfCompiled",
    "Sparse",
    "Tied",
    "ZeroHead",
]


class Mixed(Mlp):
    """Multiplies matrices in bfloat16 inside a float32 arm."""

    kind = torch.bfloat16

    def predict(self, model: Any, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        with torch.autocast("cpu", self.kind):
            found = model(batch.tensors["x"])
        return found.to(batch.tensors["x"].dtype), None


class Overflowing(Mlp):
    """Scales its loss by 65 536 before a cast to float16, which cannot hold it."""

    def predict(self, model: Any, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        found, carry = super().predict(model, batch, carry)
        scaled = found * 2.0**18
        return (scaled.half() if self.fault == "half" else scaled).to(found.dtype) * 2.0**-18, carry


class Exploding(Mlp):
    """Has a loss of 1e5 or so, which float16 cannot hold; an arm may go through it, or get it wrong."""

    def loss(self, model: nn.Module, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        loss, carry = super().loss(model, batch, carry)
        loss = loss * 2.0**20
        if self.fault == "infinite":
            loss = loss + torch.where(loss > 0, torch.inf, 0.0)
        return (loss.half().float() if self.fault == "half" else loss), carry


class Augmented(Mlp):
    """Moves its inputs by numbers from NumPy's global generator, which nobody seeds."""

    def predict(self, model: Any, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        x = batch.tensors["x"]
        return model(x + torch.from_numpy(np.random.standard_normal(x.shape)).to(x.dtype)), None


class Faint(Mlp):
    """Has a loss so small that its gradients underflow in float16, which an arm may go through."""

    def loss(self, model: nn.Module, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        loss, carry = super().loss(model, batch, carry)
        return loss * 2.0**-20, carry


class Steep(Mlp):
    """Has a loss so steep that its gradients overflow in float16, which an arm may go through."""

    optimiser = torch.optim.SGD

    def loss(self, model: nn.Module, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        loss, carry = super().loss(model, batch, carry)
        return loss * 2.0**24, carry


class Divided(Mlp):
    """Ill-conditioned and right: divides by small numbers, and takes 1 - cos of small ones."""

    def predict(self, model: Any, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        h = model[2](torch.relu(model[0](batch.tensors["x"])))
        small = 1e-3 * torch.tanh(h)
        bent = (1 - torch.cos(small)) / 1e-6
        return model[4](bent / (h.square() + 1e-4).sqrt() * 0.1), None


class Chain(Mlp):
    """Ill-conditioned and right: a recurrent chain of 60 steps, each of which makes differences larger."""

    optimiser = torch.optim.SGD

    def net(self) -> nn.Module:
        return nn.ModuleDict({"step": nn.Linear(6, 6), "head": nn.Linear(6, 1)})

    def predict(self, model: Any, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        h = batch.tensors["x"]
        for _ in range(60):
            h = torch.tanh(2.5 * model["step"](h))
        return model["head"](h), None


class Clipped(Mlp):
    """Clips its gradient's norm and lowers its rate; the count is its own state."""

    optimiser = torch.optim.SGD

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.steps = 0

    def after_backward(self, model: nn.Module, player: Player) -> None:
        limit = 0.05 * (1 + self.size) if self.fault == "clip" else 0.05
        nn.utils.clip_grad_norm_(player.parameters.values(), limit)

    def after_step(self, model: nn.Module, player: Player) -> None:
        self.steps += 1
        for group in player.optimiser.param_groups:
            group["lr"] = 0.05 / (1 + self.steps)

    def state(self) -> dict[str, Any]:
        return {"steps": self.steps}

    def restore(self, state: dict[str, Any]) -> None:
        self.steps = state["steps"]


class Duel(Mlp):
    """Two players as in a GAN: the second tells drawn numbers from those that the first makes."""

    def net(self) -> nn.Module:
        parts = {
            name: nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, out))
            for name, out in (("judge", 1), ("maker", 6))
        }
        return nn.ModuleDict(parts)

    def more(self, draw: Draw) -> dict[str, Tensor]:
        return {"noise": draw("noise").normal((ROWS, 6))}

    def players(self, model: Any) -> list[Player]:
        made = []
        for name, loss in (("judge", self.judged), ("maker", self.made)):
            own = players_with(self.optimiser, dict(model[name].named_parameters()), self.fault, self.size)[0]
            made.append(Player(name, own.parameters, own.optimiser, loss=loss))
        return made

    def judged(self, model: Any, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        made = model["maker"](batch.tensors["noise"])
        if self.fault != "detach":
            made = made.detach()
        real, false = model["judge"](batch.tensors["x"]), model["judge"](made)
        return F.softplus(-real).mean() + F.softplus(false).mean(), None

    def made(self, model: Any, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        made = model["maker"](batch.tensors["noise"])
        if self.fault == "cut":  # the maker is told nothing
            made = made.detach() + 0 * made
        return F.softplus(-model["judge"](made)).mean(), None


class Window(Mlp):
    """Two lines: a prediction of each of several frames, the targets in one NumPy buffer that is used again."""

    def net(self) -> nn.Module:
        return nn.ModuleDict({"line": nn.Linear(6, 1)})

    def predict(self, model: Any, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        return model["line"](batch.tensors["x"]), None

    def loss(self, model: Any, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        x, y = batch.tensors["x"], batch.tensors["y"]
        buffer, losses = y[0].detach().clone().numpy(), []
        for frame, wanted in zip(x, y, strict=True):
            buffer[:] = wanted.numpy()
            wanted = torch.from_numpy(buffer if self.fault == "alias" else buffer.copy())
            losses.append(F.mse_loss(model["line"](frame), wanted))
        return torch.stack(losses).mean(), None


class Pooled(Mlp):
    """What inductor of torch 2.13 differentiates wrongly on the CPU (pytorch issue 185509)."""

    optimiser = torch.optim.SGD

    def net(self) -> nn.Module:
        return nn.Conv2d(2, 3, 3, padding=1)

    def shape(self) -> tuple[int, ...]:
        return (1, 2, 5, 7)  # right with two samples or more

    def more(self, draw: Draw) -> dict[str, Tensor]:
        return {"slope": draw("slope").normal((1, 3, 5, 7))}

    def loss(self, model: nn.Module, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        kept = model(batch.tensors["x"])
        pool = F.max_pool2d(kept, 3, 1, 1)
        chosen = torch.where(kept > pool.mean((2, 3), keepdim=True), kept, pool)
        return (chosen * batch.tensors["slope"]).mean(), None


class OneType(Mlp):
    """Works in float32 only."""

    def predict(self, model: Any, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        assert batch.tensors["x"].dtype is torch.float32, "only float32 is supported"
        return super().predict(model, batch, carry)


class SmallPredNet(PredNet):
    """PredNet on drawn pictures."""

    def __init__(self, *, fault: str = "none", size: float = 0.01) -> None:
        reused = "reused-buffer" if fault == "alias" else "copied"
        super().__init__(width=16, height=8, channels="3,4,5", window=4, input=reused)
        self.fault, self.size = fault, size

    def prepare(self) -> str:
        return "drawn"

    def build(self) -> nn.Module:
        model = super().build()
        plant(model, self.fault, self.size)
        return model

    def batches(self, draw: Draw) -> Iterator[Batch]:
        for k in range(10**6):
            yield Batch(np.array([k]), {"frames": draw("frames").uniform((5, 1, 3, 8, 16))})

    def players(self, model: nn.Module) -> list[Player]:
        return players_with(torch.optim.Adam, dict(model.named_parameters()), self.fault, self.size)

    def evaluate(self, model: nn.Module, place: Any) -> dict[str, float]:
        return {}


ARCHITECTURES = (
    "Mlp", "Conv", "BatchNorm", "Lstm", "Attention", "SmallPredNet", "Dropout", "DrawnDropout", "Tied", "Accumulated",
    "Mixed", "Divided", "Chain", "Clipped", "Sparse", "Duel", "Window",
)  # fmt: skip
