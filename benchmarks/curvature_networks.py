"""The networks that the curvature benchmark looks at, trained for some steps on the packaged MNIST images, in float64.

Full size: an autoencoder 784-128-32 (210k parameters), a convnet with cross-entropy (33k), a convolutional LSTM over
crops that move (60k). And two where ends are hard to find: the autoencoder after 1000 steps, whose lowest eigenvalue
lies close to many others, and the convnet ten steps later, whose two lowest lie a quarter of a percent apart. Small:
the three with about 2000 parameters, whose whole spectrum can be had.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from trainables import mnist

NAMES = ("autoencoder", "convnet", "ConvLSTM")
LATE, CLOSE = "autoencoder, late", "convnet, a close pair"
HARD = (CLOSE, LATE)
TRAINED = 40
STEPS = {LATE: 1000, CLOSE: 50}
"""Steps of training, where they are not ``TRAINED``."""


class ConvLstm(nn.Module):
    """Predicts each frame from those before."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.gates = nn.Conv2d(1 + hidden, 4 * hidden, 3, padding=1)
        self.out = nn.Conv2d(hidden, 1, 3, padding=1)

    def forward(self, frames: Tensor) -> Tensor:
        """Take and return frames in the second dimension; one fewer comes back."""
        h = c = frames.new_zeros(len(frames), self.hidden, *frames.shape[-2:])
        predicted = []
        for t in range(frames.shape[1] - 1):
            i, f, o, g = self.gates(torch.cat([frames[:, t : t + 1], h], dim=1)).chunk(4, dim=1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
            predicted.append(self.out(h))
        return torch.cat(predicted, dim=1)


class MeanSquare(nn.Module):
    """As ``nn.MSELoss``, which forward-mode differentiation of a gradient does not get through in torch 2.13."""

    reduction = "mean"

    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        """Return the mean squared difference."""
        return (output - target).square().mean()


@dataclass
class Network:
    """A model, its criterion, one batch, and the learning rate it is trained with."""

    model: nn.Module
    criterion: nn.Module
    batch: tuple[Tensor, Tensor]
    rate: float

    def loss(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        """Return the loss as ``ablate.curvature`` wants it."""
        value: Tensor = self.criterion(model(batch[0]), batch[1])
        return value

    def train(self, steps: int) -> None:
        """Take some steps, so that the point is none that an initialiser made."""
        optimiser = torch.optim.SGD(self.model.parameters(), lr=self.rate)
        for _ in range(steps):
            optimiser.zero_grad()
            self.loss(self.model, self.batch).backward()
            optimiser.step()
        optimiser.zero_grad(set_to_none=True)


def network(name: str, small: bool = False) -> Network:
    """Return a network as an initialiser made it, always the same."""
    torch.manual_seed(0)
    digits = mnist.load()
    rows = digits.train[:: len(digits.train) // 256][:256]
    images = torch.from_numpy(digits.floats(rows)).double().reshape(-1, 1, 28, 28)
    labels = torch.from_numpy(digits.labels[rows])
    if name in ("autoencoder", LATE):
        sizes = (64, 14, 5) if small else (784, 128, 32)
        flat = (nn.functional.adaptive_avg_pool2d(images, 8) if small else images).flatten(1)
        return Network(_autoencoder(*sizes).double(), MeanSquare(), (flat, flat), 1.0)
    if name in ("convnet", CLOSE):
        model, samples = (_convnet(3, 6, 6), 32) if small else (_convnet(16, 32, 18), 128)
        return Network(model.double(), nn.CrossEntropyLoss(), (images[:samples], labels[:samples]), 0.1)
    frames, size, hidden = 6, 16, 7 if small else 40
    film = torch.stack([images[:4, 0, t : t + size, t : t + size] for t in range(frames)], dim=1)
    return Network(ConvLstm(hidden).double(), MeanSquare(), (film, film[:, 1:]), 0.1)


def _autoencoder(pixels: int, hidden: int, code: int) -> nn.Module:
    model = nn.Sequential(nn.Linear(pixels, hidden), nn.ReLU(), nn.Linear(hidden, code), nn.ReLU())
    return model.extend([nn.Linear(code, hidden), nn.ReLU(), nn.Linear(hidden, pixels), nn.Sigmoid()])


def _convnet(first: int, second: int, hidden: int) -> nn.Module:
    model = nn.Sequential(nn.Conv2d(1, first, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
    model.extend([nn.Conv2d(first, second, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()])
    return model.extend([nn.Linear(49 * second, hidden), nn.ReLU(), nn.Linear(hidden, 10)])
