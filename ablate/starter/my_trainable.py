"""A trainable of your own: change the model, the data and the loss; the framework owns the loop."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from ablate.trial.draw import Draw
from ablate.trial.protocol import Batch, Carry, Player


class Regression:
    """A small network learns a fixed curve from noisy points. Settings are the keyword arguments of ``__init__``."""

    def __init__(self, *, hidden: int = 32, lr: float = 0.01) -> None:
        """Keep the settings; the grid may override each, and a factor may vary it."""
        self.hidden = hidden
        self.lr = lr

    def prepare(self) -> str:
        """Check and cache data once, before any trial; return a hash or version of the data set."""
        return "drawn"

    def build(self) -> nn.Module:
        """Make the model; ablate does this once per block and gives every arm the same weights."""
        return nn.Sequential(nn.Linear(1, self.hidden), nn.Tanh(), nn.Linear(self.hidden, 1))

    def batches(self, draw: Draw) -> Iterator[Batch]:
        """Yield batches for ever. Draw only from named streams: then no arm can see other data than another."""
        points, noise = draw("points"), draw("noise")
        for k in range(10**9):
            x = 2 * points.uniform((64, 1)) - 1
            y = torch.from_numpy(np.sin(3 * x.numpy())) + 0.1 * noise.normal((64, 1))
            yield Batch(index=np.array([k]), tensors={"x": x, "y": y})

    def players(self, model: nn.Module) -> list[Player]:
        """One optimiser for all parameters."""
        return [Player("all", dict(model.named_parameters()), torch.optim.Adam(model.parameters(), lr=self.lr))]

    def loss(self, model: nn.Module, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        """Return this batch's loss, and what to carry to the next batch (nothing here)."""
        return F.mse_loss(model(batch.tensors["x"]), batch.tensors["y"]), carry
