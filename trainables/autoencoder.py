"""A simple fully connected autoencoder on MNIST digits, the model that showed no gap between CPU and GPU.

    h1 = relu(W1 x + b1)    784 -> 128        h3 = relu(W3 h2 + b3)       32 -> 128
    h2 = relu(W2 h1 + b2)   128 -> 32         y  = sigmoid(W4 h3 + b4)   128 -> 784     (CIFAR-10: 3072, not 784)
    loss = mean over pixels and images of (y - x)^2

Pietrowski et al. 2021 (arXiv 2109.01451, retracted by its authors) trained one with batch size 1 beside PredNet. They
don't print its layer sizes; the sizes, sigmoid and Adam here are ours. Backward runs straight after each forward, so a
target buffer reused for the next batch can do no harm, unlike in PredNet.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cached_property
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from ablate.errors import BadInput, Problem
from ablate.trial.draw import Draw
from ablate.trial.protocol import Batch, Carry, Place, Player, Shown
from ablate.trial.protocol import Images as Pictures
from trainables import cifar10, mnist, mnist_idx
from trainables.images import Images
from trainables.settings import at_least, one_of, positive
from trainables.sources import check_path

ON_DISK = ("mnist-idx", "cifar10")
DATA = ("packaged", *ON_DISK)


class Autoencoder:
    """Structured trainable; a batch is ``batch_size`` images, in a fresh random order every epoch.

    Args:
        data: packaged (5000 MNIST digits that ship), mnist-idx (MNIST's own files) or cifar10.
        path: of the folder or archive; mnist-idx and cifar10 only.
        batch_size: images a batch; the last, incomplete batch of an epoch is left out.
        lr: learning rate of Adam.
        hidden: units of the first and third layer.
        code: units of the middle layer.

    Raises:
        BadInput: if a setting is out of range.
    """

    independent_rows = True
    mean_over_rows = True

    def __init__(
        self,
        *,
        data: Literal["packaged", "mnist-idx", "cifar10"] = "packaged",
        path: str = "",
        batch_size: int = 1,
        lr: float = 1e-3,
        hidden: int = 128,
        code: int = 32,
    ) -> None:
        self.data = one_of("Autoencoder.data", data, DATA)
        check_path("Autoencoder", "data", data, path, ON_DISK)
        self.path = path
        self.batch_size = at_least("Autoencoder.batch_size", batch_size, 1)
        self.lr = positive("Autoencoder.lr", lr)
        self.hidden = at_least("Autoencoder.hidden", hidden, 1)
        self.code = at_least("Autoencoder.code", code, 1)

    @cached_property
    def images(self) -> Images:
        """The images and their split, read when first asked for.

        Raises:
            BadInput: if a file is missing, damaged or another one.
        """
        if self.data == "mnist-idx":
            return mnist_idx.load(self.path)
        return cifar10.load(self.path) if self.data == "cifar10" else mnist.load()

    def prepare(self) -> str:
        """Check that the images are there and whole; return a hash: of the file that ships, or of what was read."""
        train = len(self.images.train)
        if self.batch_size > train:
            found = f"is {self.batch_size}, more than the {train} training images"
            raise BadInput(Problem("Autoencoder.batch_size", found, f"1 to {train}"))
        return hashlib.sha256(mnist.read()).hexdigest() if self.data == "packaged" else self.images.digest()

    def build(self) -> nn.Module:
        """Make the model with torch's default initialisers."""
        pixels = cifar10.PIXELS if self.data == "cifar10" else mnist.PIXELS
        return nn.Sequential(
            nn.Linear(pixels, self.hidden),
            nn.ReLU(),
            nn.Linear(self.hidden, self.code),
            nn.ReLU(),
            nn.Linear(self.code, self.hidden),
            nn.ReLU(),
            nn.Linear(self.hidden, pixels),
            nn.Sigmoid(),
        )

    def batches(self, draw: Draw) -> Iterator[Batch]:
        """Yield batches of ``images``, float32 (batch_size, pixels); the index names rows of the data set."""
        images = self.images
        order = draw("order")
        while True:
            epoch = images.train[order.permutation(len(images.train))]
            for start in range(0, len(epoch) - self.batch_size + 1, self.batch_size):
                index = epoch[start : start + self.batch_size]
                yield Batch(index, {"images": torch.from_numpy(images.floats(index))})

    def players(self, model: nn.Module) -> list[Player]:
        """Return the one player, stepped by Adam."""
        parameters = dict(model.named_parameters())
        return [Player("autoencoder", parameters, torch.optim.Adam(parameters.values(), lr=self.lr))]

    def loss(self, model: nn.Module, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        """Return the mean squared reconstruction error; nothing is carried."""
        images = batch.tensors["images"]
        return functional.mse_loss(model(images), images), None

    def evaluate(self, model: nn.Module, place: Place) -> dict[str, float]:
        """Return the mean reconstruction error of the held-out images."""
        images = place(torch.from_numpy(self.images.floats(self.images.held_out)))
        with torch.no_grad():
            return {"held_out_loss": float(functional.mse_loss(model(images), images))}

    def look(self, model: nn.Module, place: Place) -> dict[str, Shown]:
        """Return the first held-out image of every label, and their reconstructions."""
        held_out = self.images.held_out
        first = np.unique(self.images.labels[held_out], return_index=True)[1]
        images = torch.from_numpy(self.images.floats(held_out[first]))
        shape = (-1, 3, 32, 32) if self.data == "cifar10" else (-1, 1, 28, 28)
        reconstruction = model(place(images))
        return {"input": Pictures(images.reshape(shape)), "reconstruction": Pictures(reconstruction.reshape(shape))}
