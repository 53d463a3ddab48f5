"""PredNet's training step: all gates of all inputs in one convolution, beside one convolution for each.

    OMP_NUM_THREADS=1 PYTHONPATH=. python benchmarks/prednet_step.py [--repeats N] [--json FILE]

A step is a window of frames forward, backward and Adam's update, on one thread, both networks with the same weights
and frames. They take turns, and the process's processor time is counted, so that a busy machine disturbs less. At
160x120 channels and window are the paper's: fewer frames would weigh Adam, and the first frame's backward, more than
its training does.

That both compute the same function is shown first, in float64 at each size: the gradient of every weight of the peer
against the same piece of ours. Both differ by rounding alone. A sum of n products is off by at most n u relative to
the sum of its magnitudes, u = 2^-53. Through S frames and L layers the longest chain passes 4 sums a layer and frame
(ConvA, gates, ConvP, elementwise), forward and again backward, each amplified by order 1 (sigmoid, tanh, relu and max
are 1-Lipschitz): together 8 S L n u, n the largest fan-in. Norms are compared, since single elements near 0 may lose
all their digits.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.measured import Comparison, arguments, report
from benchmarks.prednet_gates import GateByGate, pieces
from trainables.prednet_model import PredNetModel


@dataclass(frozen=True)
class Size:
    """Frames of one size, the network for them, and how many times faster ours is to be."""

    width: int
    height: int
    channels: tuple[int, ...]
    window: int
    repeats: int
    target: float

    def __str__(self) -> str:
        """Name it in a row."""
        return f"{self.width}x{self.height}, channels {', '.join(map(str, self.channels))}, {self.window} frames"

    def model(self) -> PredNetModel:
        """Return the network with the same weights each time."""
        torch.manual_seed(0)
        return PredNetModel(self.channels, self.height, self.width)

    def frames(self, window: int) -> Tensor:
        """Return random frames, (window + 1, 1, C, H, W)."""
        return torch.rand(window + 1, 1, self.channels[0], self.height, self.width)


SIZES = (
    Size(24, 16, (3, 16, 32), window=20, repeats=8, target=1.4),
    Size(80, 56, (3, 16, 32), window=20, repeats=3, target=1.4),
    Size(160, 120, (3, 48, 96, 192), window=20, repeats=2, target=1.15),
)
COMPARED_FRAMES = 2
"""The second frame's gradient goes through every weight: predictions and states are 0 at the first."""


def loss_of(model: nn.Module, frames: Tensor) -> Tensor:
    """Return a window's mean loss, from the state before the first frame."""
    state, losses = model.start(1, frames), []
    for shown, following in pairwise(frames):
        state, _ = model(shown, state)
        losses.append(functional.mse_loss(state.prediction[0], following))
    return torch.stack(losses).mean()


def tolerance(channels: Sequence[int], frames: int) -> float:
    """Return the bound of the header."""
    fan_in = max(9 * (2 * c + above + c) for c, above in zip(channels, (*channels[1:], 0), strict=True))
    return float(8 * frames * len(channels) * fan_in * 2.0**-53)


def largest_difference(size: Size) -> float:
    """Return by how much a weight's float64 gradients differ, relative to their norm; over weights, the largest."""
    ours = size.model().double()
    peer, frames = GateByGate(ours), size.frames(COMPARED_FRAMES).double()
    for model in (ours, peer):
        loss_of(model, frames).backward()  # type: ignore[no-untyped-call]
    found = dict(pieces(ours, {name: _gradient(p) for name, p in ours.named_parameters()}))
    expected = {name: _gradient(p) for name, p in peer.named_parameters()}
    if found.keys() != expected.keys():
        raise AssertionError(f"other weights: {sorted(found.keys() ^ expected.keys())}")
    norms = {name: float(gradient.norm()) for name, gradient in expected.items()}
    differences = {name: float((found[name] - gradient).norm()) for name, gradient in expected.items()}
    # a peephole of the forget gate meets a cell of 0 in the first frame, so a norm may be 0: then the difference is too
    return max(difference / (norms[name] or 1.0) for name, difference in differences.items())


def _gradient(parameter: nn.Parameter) -> Tensor:
    if parameter.grad is None:
        raise AssertionError("a weight got no gradient")
    return parameter.grad


def step_s(size: Size, repeats: int) -> tuple[list[float], list[float]]:
    """Return processor seconds of steps of ours and of the peer's."""
    ours = size.model()
    models = [ours, GateByGate(copy.deepcopy(ours))]
    optimisers = [torch.optim.Adam(model.parameters(), lr=1e-3) for model in models]
    frames, times = size.frames(size.window), ([], [])
    for repeat in range(repeats + 1):  # the first makes what oneDNN and Adam keep
        for model, optimiser, found in zip(models, optimisers, times, strict=True):
            began = time.process_time()
            optimiser.zero_grad()
            loss_of(model, frames).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            if repeat:
                found.append(time.process_time() - began)
    return times


def row(size: Size, repeats: int) -> Comparison:
    """Measure a size."""
    bound, difference = tolerance(size.channels, COMPARED_FRAMES), largest_difference(size)
    ours, peer = step_s(size, repeats)
    faster, same = median(peer) / median(ours), difference <= bound
    return Comparison(
        *(f"a training step at {size}", "ms", tuple(1e3 * s for s in ours)),
        *("a convolution per gate and input", tuple(1e3 * s for s in peer)),
        target=f">= {size.target:g} times, the same float64 gradients",
        met=faster >= size.target and same,
        note=f"gradients differ by {difference:.1e} at most, rounding explains {bound:.1e}"
        + ("" if same else ": NOT the same function"),
    )


def main() -> None:
    asked = arguments(__doc__, 3).parse_args()
    torch.set_num_threads(1)
    rows = [row(size, size.repeats * asked.repeats) for size in SIZES]
    report("A training step of PredNet, on one thread", rows, asked.json)


if __name__ == "__main__":
    main()
