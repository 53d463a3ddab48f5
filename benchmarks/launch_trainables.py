"""What the launch benchmarks train: for ``ablate`` (this file is copied beside a grid), and bare for its peer.

Each trial appends the time of its first batch to the file that ``BENCHMARK_MARKS`` names.

    python launch_trainables.py WIDTH ROWS BATCHES      # the bare loop; prints its seconds
"""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from ablate.trial.draw import Draw
from ablate.trial.protocol import Batch, Carry, Player

MARKS = "BENCHMARK_MARKS"
marked: set[int] = set()
"""Processes that have left their mark: an audit steps the first batch several times."""


def mark() -> None:
    """Note that a trial has come to its first batch, by the wall clock, which all processes share."""
    with Path(os.environ[MARKS]).open("a") as file:
        file.write(f"{time.time()!r}\n")


def model(width: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1))


def loss_of(network: nn.Module, x: Tensor) -> Tensor:
    return functional.mse_loss(network(x), x.sum(1, keepdim=True))


def sgd(network: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(network.parameters(), lr=0.01)


def step(network: nn.Module, optimiser: torch.optim.Optimizer, x: Tensor) -> Tensor:
    loss = loss_of(network, x)
    optimiser.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimiser.step()
    return loss


def bare(width: int, rows: int, batches: int) -> float:
    """Train as ``Perceptron`` does, with nothing around it; return the last loss."""
    network = model(width)
    optimiser = sgd(network)
    loss = torch.zeros(())
    for batch in range(batches):
        loss = step(network, optimiser, torch.randn(rows, 8))
        if batch == 0 and MARKS in os.environ:
            mark()
    return loss.item()


class Perceptron:
    """A small perceptron on noise; ``width`` and ``rows`` of a batch say how much a batch computes."""

    def __init__(self, *, width: int = 4, rows: int = 8) -> None:
        self.width, self.rows = width, rows

    def prepare(self) -> str:
        """There is nothing to prepare."""
        return "drawn"

    def build(self) -> nn.Module:
        """Return the perceptron."""
        return model(self.width)

    def batches(self, draw: Draw) -> Iterator[Batch]:
        """Yield noise without end."""
        points = draw("points")
        for batch in itertools.count():
            yield Batch(index=np.array([batch]), tensors={"x": points.normal((self.rows, 8))})

    def players(self, model: nn.Module) -> list[Player]:
        """Plain SGD."""
        return [Player("all", dict(model.named_parameters()), sgd(model))]

    def loss(self, model: nn.Module, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        """The mean squared error; the first batch leaves the trial's mark, whose process runs nothing else."""
        if batch.index[0] == 0 and MARKS in os.environ and os.getpid() not in marked:
            marked.add(os.getpid())
            mark()
        return loss_of(model, batch.tensors["x"]), carry


def main() -> None:
    torch.set_num_threads(1)
    width, rows, batches = map(int, sys.argv[1:])
    bare(width, rows, 20)  # what torch does once
    began = time.perf_counter()
    bare(width, rows, batches)
    print(time.perf_counter() - began)


if __name__ == "__main__":
    main()
