"""Small structured trainables of many architectures, each right by itself and with a fault planted by a setting.

A fault that the settings of one arm plant is in that arm alone. In the study's settings it is in all arms alike, the
audit's reference too: only the slope check can see it then. ``COMMON`` names those that are meant to be planted so.
"""

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
from trainables.prednet import PredNet

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


class Conv(Mlp):
    def net(self) -> nn.Module:
        head = [nn.Flatten(), nn.Linear(5 * 16, 1)]
        return nn.Sequential(
            nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 5, 3, padding=1), *head
        )

    def shape(self) -> tuple[int, ...]:
        return (ROWS, 2, 8, 8)


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


class Sparse(Mlp):
    """Looks words up; the gradient of the table is sparse."""

    optimiser = torch.optim.SGD

    def net(self) -> nn.Module:
        return nn.ModuleDict({"table": nn.Embedding(20, 6, sparse=True), "head": nn.Linear(6, 1)})

    def more(self, draw: Draw) -> dict[str, Tensor]:
        return {"words": (draw("words").uniform((ROWS, 4)) * 20).long()}

    def predict(self, model: Any, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        return model["head"](model["table"](batch.tensors["words"]).mean(1)), None


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
