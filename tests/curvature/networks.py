"""Small networks with real losses, and their whole Hessian by torch.func, which shares no code with the probe."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

Case = tuple[nn.Module, Callable[[nn.Module, Any], Tensor], list[Any]]


class ConvLstm(nn.Module):
    """A convolutional LSTM over four frames: predicts the next from the ones before."""

    def __init__(self) -> None:
        super().__init__()
        self.gates = nn.Conv2d(1 + 3, 12, 3, padding=1)
        self.out = nn.Conv2d(3, 1, 3, padding=1)

    def forward(self, frames: Tensor) -> Tensor:
        h = c = frames.new_zeros(len(frames), 3, *frames.shape[-2:])
        predicted = []
        for t in range(frames.shape[1] - 1):
            i, f, o, g = self.gates(torch.cat([frames[:, t : t + 1], h], dim=1)).chunk(4, dim=1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
            predicted.append(self.out(h))
        return torch.cat(predicted, dim=1)


def autoencoder(seed: int = 0) -> Case:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(36, 12), nn.ReLU(), nn.Linear(12, 4), nn.ReLU(), nn.Linear(4, 12), nn.ReLU())
    model.append(nn.Linear(12, 36)).append(nn.Sigmoid())
    images = torch.rand(40, 36) ** 3
    return trained(model, lambda m, x: (m(x) - x).square().mean(), [images], 30)


def convnet(seed: int = 0) -> Case:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 6, 3), nn.ReLU(), nn.Flatten())
    model.append(nn.Linear(6, 10))
    batch = (torch.randn(50, 1, 8, 8), torch.randint(10, (50,)))
    return trained(model, lambda m, b: nn.functional.cross_entropy(m(b[0]), b[1]), [batch], 30)


def conv_lstm(seed: int = 0) -> Case:
    torch.manual_seed(seed)
    frames = torch.rand(2, 4, 6, 6)
    return trained(ConvLstm(), lambda m, x: (m(x) - x[:, 1:]).square().mean(), [frames], 10)


def trained(model: nn.Module, loss: Callable[[nn.Module, Any], Tensor], batches: list[Any], steps: int) -> Case:
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimiser.zero_grad()
        loss(model, batches[0]).backward()
        optimiser.step()
    return model, loss, batches


def hessian(case: Case) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the whole Hessian of the mean over all samples."""
    model, loss, batches = case
    names = [name for name, _ in model.named_parameters()]
    shapes = [p.shape for _, p in model.named_parameters()]
    flat = torch.cat([p.detach().double().reshape(-1) for p in model.parameters()])
    counts = [len(batch[0]) if isinstance(batch, tuple) else len(batch) for batch in batches]

    class Called(nn.Module):
        def __init__(self, values: dict[str, Tensor]) -> None:
            super().__init__()
            self.values = values

        def forward(self, x: Tensor) -> Tensor:
            return torch.func.functional_call(model, self.values, (x,))

    def value(vector: Tensor) -> Tensor:
        pieces = torch.split(vector, [shape.numel() for shape in shapes])
        values = {name: piece.view(shape) for name, piece, shape in zip(names, pieces, shapes, strict=True)}
        total = vector.new_zeros(())
        for count, batch in zip(counts, batches, strict=True):
            inputs = (
                tuple(b.double() if b.is_floating_point() else b for b in batch)
                if isinstance(batch, tuple)
                else batch.double()
            )
            total = total + count / sum(counts) * loss(Called(values), inputs)
        return total

    matrix = torch.func.jacrev(torch.func.jacrev(value), chunk_size=64)(flat).detach().numpy()
    return np.asarray((matrix + matrix.T) / 2)


def eigenvalues(case: Case) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the true spectrum, ascending."""
    return np.linalg.eigvalsh(hessian(case))
