"""A simple fully connected autoencoder on MNIST digits, the model that showed no gap between CPU and GPU.

    h1 = relu(W1 x + b1)    784 -> 128        h3 = relu(W3 h2 + b3)       32 -> 128
    h2 = relu(W2 h1 + b2)   128 -> 32         y  = sigmoid(W4 h3 + b4)   128 -> 784
    loss = mean over pixels and images of (y - x)^2

Pietrowski et al. 2021 (arXiv 2109.01451, retracted by its authors) trained one with batch size 1 beside PredNet. They
don't print its layer sizes; the sizes, sigmoid and Adam here are ours. Backward runs straight after each forward, so a
target buffer reused for the next batch can do no harm, unlike in PredNet.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional

from ablate.errors import BadInput, Problem
from ablate.trial.draw import Draw
from ablate.trial.protocol import Batch, Carry, Place, Player
from trainables import mnist
from trainables.settings import at_least, positive

PIXELS = 784


class Autoencoder:
    """Structured trainable; a batch is ``batch_size`` digits, in a fresh random order every epoch.

    Args:
        batch_size: images a batch; the last, incomplete batch of an epoch is left out.
        lr: learning rate of Adam.
        hidden: units of the first and third layer.
        code: units of the middle layer.

    Raises:
        BadInput: if a setting is out of range.
    """

    def __init__(self, *, batch_size: int = 1, lr: float = 1e-3, hidden: int = 128, code: int = 32) -> None:
        self.batch_size = at_least("Autoencoder.batch_size", batch_size, 1)
        self.lr = positive("Autoencoder.lr", lr)
        self.hidden = at_least("Autoencoder.hidden", hidden, 1)
        self.code = at_least("Autoencoder.code", code, 1)

    def prepare(self) -> str:
        """Check that the digits are there and whole; return the hash of the file."""
        digits = mnist.load()
        if self.batch_size > len(digits.train):
            found = f"is {self.batch_size}, more than the {len(digits.train)} training images"
            raise BadInput(Problem("Autoencoder.batch_size", found, f"1 to {len(digits.train)}"))
        return hashlib.sha256(mnist.read()).hexdigest()

    def build(self) -> nn.Module:
        """Make the model with torch's default initialisers."""
        return nn.Sequential(
            nn.Linear(PIXELS, self.hidden),
            nn.ReLU(),
            nn.Linear(self.hidden, self.code),
            nn.ReLU(),
            nn.Linear(self.code, self.hidden),
            nn.ReLU(),
            nn.Linear(self.hidden, PIXELS),
            nn.Sigmoid(),
        )

    def batches(self, draw: Draw) -> Iterator[Batch]:
        """Yield batches of ``images``, float32 (batch_size, 784); the index names rows of the 5000 digits."""
        digits = mnist.load()
        order = draw("order")
        while True:
            epoch = digits.train[order.permutation(len(digits.train))]
            for start in range(0, len(epoch) - self.batch_size + 1, self.batch_size):
                index = epoch[start : start + self.batch_size]
                yield Batch(index, {"images": torch.from_numpy(digits.images[index])})

    def players(self, model: nn.Module) -> list[Player]:
        """Return the one player, stepped by Adam."""
        parameters = dict(model.named_parameters())
        return [Player("autoencoder", parameters, torch.optim.Adam(parameters.values(), lr=self.lr))]

    def loss(self, model: nn.Module, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        """Return the mean squared reconstruction error; nothing is carried."""
        images = batch.tensors["images"]
        return functional.mse_loss(model(images), images), None

    def evaluate(self, model: nn.Module, place: Place) -> dict[str, float]:
        """Return the mean reconstruction error of the 1000 held-out digits."""
        digits = mnist.load()
        images = place(torch.from_numpy(digits.images[digits.held_out]))
        with torch.no_grad():
            return {"held_out_loss": float(functional.mse_loss(model(images), images))}
