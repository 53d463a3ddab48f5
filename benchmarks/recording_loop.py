"""A training loop of about a millisecond a step, some steps of which are recorded and some not; and our recording.

What recording costs is the difference of neighbouring stretches of steps, and, with less noise, the processor time from
before to after the calls themselves: in the loop, so that code and data are as cold as a step leaves them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

ROWS, PIXELS, CLASSES, SAMPLES = 32, 784, 10, 4096
STEP_S = 1e-3
TURN = 20
"""Steps of a stretch. Were it one, every bare step would pay for what a recording drove out of the caches."""
Index = np.ndarray[Any, np.dtype[np.int64]]


class Recording(Protocol):
    """What a way of recording is told around each step."""

    def data(self, index: Index, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Take the batch before the step, and return the tensors to train on."""
        ...

    def batch(self, number: int, loss: Tensor, accuracy: float) -> None:
        """Record the batch after the step."""
        ...


class Reported:
    """A way of recording that looks at no data; ``report`` is given the number of the batch and two metrics."""

    def __init__(self, report: Callable[[int, dict[str, float]], object]) -> None:
        self._report = report

    def data(self, index: Index, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return the tensors as they are."""
        return x, y

    def batch(self, number: int, loss: Tensor, accuracy: float) -> None:
        """Report both numbers."""
        self._report(number, {"loss": loss.item(), "accuracy": accuracy})


@dataclass(frozen=True)
class Cost:
    """What one way of recording took.

    Attributes:
        share: wall time of the recorded steps over that of as many bare ones, less 1.
        cpu_us: processor time a recorded batch, of this thread in the calls and of all others of the process.
        step_s: wall time of a bare step.
    """

    share: float
    cpu_us: float
    step_s: float


class Steps:
    """A perceptron trained by Adam on random pictures; ``width`` hidden units, none for steps that do nothing."""

    def __init__(self, width: int) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(PIXELS, width or 1), nn.ReLU(), nn.Linear(width or 1, CLASSES))
        self._optimiser = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self._empty = width == 0
        self._x, self._y = torch.rand(SAMPLES, PIXELS), torch.randint(CLASSES, (SAMPLES,))
        self._order = np.arange(SAMPLES).reshape(-1, ROWS)
        self._still = torch.tensor(0.5)

    def batch(self, number: int) -> tuple[Index, Tensor, Tensor]:
        """Return a batch's index list and tensors."""
        rows = slice(first := number * ROWS % SAMPLES, first + ROWS)
        return self._order[number % len(self._order)], self._x[rows], self._y[rows]

    def step(self, x: Tensor, y: Tensor) -> tuple[Tensor, float]:
        """Train on a batch; return its loss and its accuracy, as a trainable would compute them."""
        if self._empty:
            return self._still, 0.5
        self._optimiser.zero_grad()
        scores = self.model(x)
        loss = functional.cross_entropy(scores, y)
        loss.backward()
        self._optimiser.step()
        return loss, (scores.argmax(dim=1) == y).float().mean().item()


def width_of(step_s: float = STEP_S) -> int:
    """Return how many hidden units make a step of about that length on this machine, by the processor's time."""
    width = 128
    for _ in range(4):
        steps, times = Steps(width), []
        for number in range(60):
            began = time.thread_time()
            loss, _ = steps.step(*steps.batch(number)[1:])
            loss.item()
            times.append(time.thread_time() - began)
        width = max(8, round(width * step_s / sorted(times)[len(times) // 2]))
    return width


def paired(width: int, recording: Recording, pairs: int, close: Callable[[], object] = lambda: None) -> Cost:
    """Run so many bare steps and as many recorded ones, stretch by stretch; ``close`` ends the recording."""
    steps = Steps(width)
    bare_s = recorded_s = calls_s = 0.0
    clock, cpu = time.perf_counter, time.thread_time
    before = time.process_time() - cpu()
    for first in range(0, pairs, TURN):
        numbers = range(first, min(first + TURN, pairs))
        began = clock()
        for number in numbers:
            _, x, y = steps.batch(2 * number)
            calls_s += cpu() - cpu()  # below zero: what asking for the time takes, which is in the recorded step's too
            loss, _ = steps.step(x, y)
            at = cpu()
            loss.item()  # a bare loop reads its loss too
            calls_s -= cpu() - at
        bare_s += clock() - began
        began = clock()
        for number in numbers:
            index, x, y = steps.batch(2 * number + 1)
            at = cpu()
            x, y = recording.data(index, x, y)
            calls_s += cpu() - at
            loss, accuracy = steps.step(x, y)
            at = cpu()
            recording.batch(number, loss, accuracy)
            calls_s += cpu() - at
        recorded_s += clock() - began
    at = cpu()
    close()
    calls_s += cpu() - at
    others_s = time.process_time() - cpu() - before
    return Cost(recorded_s / bare_s - 1, (calls_s + others_s) / pairs * 1e6, bare_s / pairs)


class Ours:
    """Recording as a function trainable does it."""

    def __init__(self, ctx: Any) -> None:
        self._ctx = ctx

    def data(self, index: Index, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Have the batch hashed and placed."""
        tensors = self._ctx.data(index, x=x, y=y)
        return tensors["x"], tensors["y"]

    def batch(self, number: int, loss: Tensor, accuracy: float) -> None:
        """Have the row written."""
        self._ctx.batch(loss, {"accuracy": accuracy})


FOUND: list[Cost] = []
"""What trials of ``steps`` found, in this process."""


def steps(config: dict[str, Any], ctx: Any) -> None:
    """A function trainable that measures its own recording."""
    ctx.draw("order").permutation(SAMPLES)  # a stream, whose position is hashed with every batch
    FOUND.append(paired(config["width"], Ours(ctx), ctx.batches))


def falling(config: dict[str, Any], ctx: Any) -> None:
    """A function trainable that trains nothing: losses and accuracies as training has them, float32 with noise."""
    noise = ctx.draw("noise").normal((2, ctx.batches))
    at = torch.arange(ctx.batches) / ctx.batches
    losses = torch.exp(-3 * at) * (1 + 0.1 * noise[0]).abs() + 0.05
    accuracies = (1 - torch.exp(-3 * at) * (1 + 0.1 * noise[1]).abs()).tolist()
    for number, loss in enumerate(losses):
        ctx.data(np.arange(ROWS), x=noise[:, :ROWS])
        ctx.batch(loss, {"accuracy": accuracies[number]})
