"""Both ends of a Hessian's spectrum: products, true errors, and what a product costs; beside it scipy's ``eigsh``.

    OMP_NUM_THREADS=1 python benchmarks/curvature.py [seeds]

Three networks trained for a few steps on the packaged MNIST images: a fully connected autoencoder, a convnet with
cross-entropy, and a convolutional LSTM over crops that move. Every method has the same float64 products and is asked
for a relative error of 1e-3 at both ends; true errors are against a run of our own to 1e-9 from another start. The
peer is what people write by hand: ``scipy.sparse.linalg.eigsh(which="BE")``. Packages that compute Hessian spectra
(PyHessian, curvlinops, hessian-eigenthings) are not installed by this project and not measured here yet. Medians over
seeds; times are of the one thread's processor.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from statistics import median

import numpy as np
import torch
from scipy.sparse.linalg import LinearOperator, eigsh
from torch import Tensor, nn

from ablate.curvature import Hessian, Objective, Plan, look, objective
from ablate.trial.cpu import cpu_model
from trainables import mnist

TOLERANCE = 1e-3
HIDDEN, FRAMES, SIZE = 40, 6, 16


class ConvLstm(nn.Module):
    """Predicts each frame from those before."""

    def __init__(self) -> None:
        super().__init__()
        self.gates = nn.Conv2d(1 + HIDDEN, 4 * HIDDEN, 3, padding=1)
        self.out = nn.Conv2d(HIDDEN, 1, 3, padding=1)

    def forward(self, frames: Tensor) -> Tensor:
        """Take and return frames in the second dimension; one fewer comes back."""
        h = c = frames.new_zeros(len(frames), HIDDEN, *frames.shape[-2:])
        predicted = []
        for t in range(frames.shape[1] - 1):
            i, f, o, g = self.gates(torch.cat([frames[:, t : t + 1], h], dim=1)).chunk(4, dim=1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
            predicted.append(self.out(h))
        return torch.cat(predicted, dim=1)


Loss = Callable[[nn.Module, tuple[Tensor, Tensor]], Tensor]


def networks() -> dict[str, tuple[nn.Module, Loss, tuple[Tensor, Tensor], float]]:
    """Return the networks: model, loss, batch and learning rate."""
    torch.manual_seed(0)
    digits = mnist.load()
    rows = digits.train[:: len(digits.train) // 256][:256]
    flat, labels = torch.from_numpy(digits.floats(rows)), torch.from_numpy(digits.labels[rows])
    images = flat.reshape(-1, 1, 28, 28)
    dense = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 32), nn.ReLU(), nn.Linear(32, 128), nn.ReLU())
    dense.append(nn.Linear(128, 784)).append(nn.Sigmoid())
    conv = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1))
    conv.extend([nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(1568, 18), nn.ReLU(), nn.Linear(18, 10)])
    film = torch.stack([images[:8, 0, t : t + SIZE, t : t + SIZE] for t in range(FRAMES)], dim=1)
    return {
        "autoencoder": (dense, lambda m, b: (m(b[0]) - b[1]).square().mean(), (flat, flat), 1.0),
        "convnet": (conv, lambda m, b: nn.functional.cross_entropy(m(b[0]), b[1]), (images[:128], labels[:128]), 0.1),
        "ConvLSTM": (ConvLstm(), lambda m, b: (m(b[0]) - b[1]).square().mean(), (film, film[:, 1:]), 0.1),
    }


def trained(model: nn.Module, loss: Loss, batch: tuple[Tensor, Tensor], rate: float, steps: int = 40) -> None:
    """Take some steps, so that the point is none that an initialiser made."""
    optimiser = torch.optim.SGD(model.parameters(), lr=rate)
    for _ in range(steps):
        optimiser.zero_grad()
        loss(model, batch).backward()
        optimiser.step()


def seconds(call: Callable[[], object], repeats: int = 5) -> float:
    """Return the median time of a call; the first is not counted."""
    times = []
    for _ in range(repeats + 1):
        begun = time.thread_time()
        call()
        times.append(time.thread_time() - begun)
    return median(times[1:])


def by_eigsh(target: Objective, seed: int) -> tuple[float, float, int]:
    """Return both ends and the products that scipy needs for them."""
    hessian = Hessian(target)
    n = hessian.dimension
    operator = LinearOperator((n, n), lambda v: (hessian @ torch.from_numpy(v.reshape(-1))).numpy(), dtype=np.float64)
    start = np.random.default_rng(seed).standard_normal(n)
    low, high = eigsh(operator, k=2, which="BE", tol=TOLERANCE, v0=start, return_eigenvectors=False)
    return float(low), float(high), hessian.products


def measure(model: nn.Module, loss: Loss, batch: tuple[Tensor, Tensor], seeds: range) -> None:
    """Print a line for each method on one network."""
    target = objective(model, loss, [batch])
    exact = look(Hessian(target), Plan(tolerance=1e-9, most_steps=400, probes=0, seed=99))
    kept, anew = Hessian(target), Hessian(target, keep=False)
    vector = torch.randn(kept.dimension, dtype=torch.float64)
    gradient = seconds(lambda: anew.gradient_at(torch.zeros_like(vector)))
    costs = seconds(lambda: kept @ vector) / gradient, seconds(lambda: anew @ vector) / gradient
    print(f"  {kept.dimension:,} parameters; a product costs {costs[0]:.2f} gradients with the graph kept, ", end="")
    print(f"{costs[1]:.2f} built anew")
    rows: dict[str, list[tuple[float, ...]]] = {"ours": [], "eigsh": []}
    for seed in seeds:
        begun = time.thread_time()
        found = look(Hessian(target), Plan(tolerance=TOLERANCE, seed=seed))
        rows["ours"].append((found.products, time.thread_time() - begun, found.top.value, found.bottom.value))
        begun = time.thread_time()
        low, high, products = by_eigsh(target, seed)
        rows["eigsh"].append((products, time.thread_time() - begun, high, low))
    for method, measured in rows.items():
        products, took, *_ = (median(column) for column in zip(*measured, strict=True))
        top = max(abs(row[2] / exact.top.value - 1) for row in measured)
        bottom = max(abs(row[3] / exact.bottom.value - 1) for row in measured)
        print(f"  {method:6} {products:5.0f} products {took:6.1f} s   worst error: top {top:.1e}, bottom {bottom:.1e}")


def main() -> None:
    """Measure every network."""
    seeds = range(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
    torch.set_num_threads(1)
    print(f"{cpu_model()}, Python {sys.version.split()[0]}, torch {torch.__version__}, {len(seeds)} seeds")
    for name, (model, loss, batch, rate) in networks().items():
        trained(model, loss, batch, rate)
        print(name)
        measure(model, loss, batch, seeds)
    print("ours: both ends with bounds, density, trace, index, and one product held against a difference of gradients")


if __name__ == "__main__":
    main()
