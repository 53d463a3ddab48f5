"""A generative adversarial network with minibatch discrimination, and two other remedies of the paper that gave it.

Goodfellow et al. 2014 (arXiv 1406.2661): a discriminator D learns to tell real images x from G(z), a generator G to
make it fail. Salimans et al. 2016 (arXiv 1606.03498) name mode collapse, a generator that gives one image for every z,
as its main way to fail, and give, each a setting here:

- minibatch discrimination (section 3.2, ``discriminator: minibatch``): see ``minibatch_discrimination``;
- feature matching (section 3.1, ``generator_loss: feature-matching``): G lowers ||E f(x) - E f(G(z))||^2 instead, f
  being D's features below minibatch discrimination;
- one-sided label smoothing (section 3.4, ``real_label: 0.9``): D's target for real images, with 0 left for others.

    L_D = E[-a log D(x) - (1 - a) log(1 - D(x))] + E[-log(1 - D(G(z)))]      a = real_label
    L_G = E[-log D(G(z))]                                                    z drawn anew

D is stepped first, as in Goodfellow et al.'s algorithm 1, so ``loss`` is L_D and ``loss_generator`` L_G. Neither loss
cuts the graph to the other player: both are functions of all parameters, whose mixed second derivatives a probe of the
game's Jacobian needs. What backward leaves in the other player's gradients is dropped before that player's step.
Collapse is measured on fixed latents (see ``diversity``): after the last batch, and wherever artifacts are recorded.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits as cross_entropy

from ablate.errors import BadInput, Problem
from ablate.trial.draw import Draw
from ablate.trial.protocol import Batch, Carry, Images, Loss, Place, Player, Shown
from trainables.diversity import NEIGHBOURS, RealImages
from trainables.gan_data import SIDE, GanData
from trainables.gan_model import GanModel
from trainables.images import Index
from trainables.settings import at_least, one_of, positive

DISCRIMINATORS = ("plain", "minibatch")
GENERATOR_LOSSES = ("non-saturating", "feature-matching")
BETAS = (0.5, 0.999)  # Adam's, as Radford et al. 2016 found to be stable

COMPARED = 500
"""Most real images that as many samples are compared with."""

SHOWN = 10
"""Samples and real images that ``look`` gives pictures of; of the digits that ship, one each."""


class GAN:
    """Structured trainable of two players; a batch is ``batch_size`` images and, for each player, as many latents.

    Args:
        data: mnist (5000 digits that ship), mnist-idx (MNIST's own files), cifar10, photographs (patches of real
            photographs, not CIFAR-10) or folder (pictures of your own, ImageNet for instance).
        path: of the folder or archive; mnist-idx, cifar10 and folder only.
        side: of a picture in pixels, a multiple of 4; photographs and folder only.
        batch_size: images a batch; the last, incomplete batch of an epoch is left out.
        latent: numbers that an image is made of.
        width: channels of the layer nearest to the pixels, in both players.
        features: of the discriminator's layer below its head.
        discriminator: plain, or minibatch for minibatch discrimination.
        kernels: B of minibatch discrimination.
        kernel_size: C of minibatch discrimination.
        generator_loss: non-saturating or feature-matching.
        real_label: the discriminator's target for real images; below 1 is one-sided label smoothing.
        lr: learning rate of Adam, of both players.

    Raises:
        BadInput: if a setting is out of range.
    """

    # A batch may be reordered, every tensor alike. That isn't to say it may be split: minibatch discrimination and
    # feature matching compare the rows of one batch.
    independent_rows = True

    def __init__(
        self,
        *,
        data: Literal["mnist", "mnist-idx", "cifar10", "photographs", "folder"] = "mnist",
        path: str = "",
        side: int = SIDE,
        batch_size: int = 64,
        latent: int = 32,
        width: int = 16,
        features: int = 64,
        discriminator: Literal["plain", "minibatch"] = "plain",
        kernels: int = 32,
        kernel_size: int = 5,
        generator_loss: Literal["non-saturating", "feature-matching"] = "non-saturating",
        real_label: float = 1.0,
        lr: float = 2e-4,
    ) -> None:
        self.data = GanData("GAN", data, path, side)
        self.batch_size = at_least("GAN.batch_size", batch_size, 2)
        self.latent = at_least("GAN.latent", latent, 1)
        self.width = at_least("GAN.width", width, 1)
        self.features = at_least("GAN.features", features, 1)
        self.discriminator = one_of("GAN.discriminator", discriminator, DISCRIMINATORS)
        self.kernels = at_least("GAN.kernels", kernels, 1)
        self.kernel_size = at_least("GAN.kernel_size", kernel_size, 1)
        self.generator_loss = one_of("GAN.generator_loss", generator_loss, GENERATOR_LOSSES)
        self.real_label = positive("GAN.real_label", real_label)
        if self.real_label > 1:
            raise BadInput(Problem("GAN.real_label", f"is {real_label!r}", "above 0, up to 1"))
        self.lr = positive("GAN.lr", lr)
        self._norms: dict[str, Tensor] = {}

    def prepare(self) -> str:
        """Check that there are enough images; return a hash of them."""
        pictures = self.data.pictures
        if self.batch_size > len(pictures.train):
            found = f"is {self.batch_size}, more than the {len(pictures.train)} training images"
            raise BadInput(Problem("GAN.batch_size", found, f"2 to {len(pictures.train)}"))
        if len(pictures.held_out) <= NEIGHBOURS:
            found = f"{self.data.data} holds out {len(pictures.held_out)} images"
            raise BadInput(Problem("GAN.data", found, f"{NEIGHBOURS + 1} or more, to measure coverage"))
        return pictures.digest()

    def build(self) -> nn.Module:
        """Make both players with torch's default initialisers."""
        channels, side, _ = self.data.shape
        kernels = self.kernels if self.discriminator == "minibatch" else 0
        return GanModel(self.latent, channels, side, self.width, self.features, kernels, self.kernel_size)

    def batches(self, draw: Draw) -> Iterator[Batch]:
        """Yield batches, float32; the index names rows of the data set.

        ``images`` are (batch_size, pixels); ``latents`` and ``latents_generator`` (batch_size, latent), standard
        normals for the discriminator's and the generator's step.
        """
        pictures = self.data.pictures
        order, latents = draw("order"), draw("latents")
        shape = (self.batch_size, self.latent)
        while True:
            epoch = pictures.train[order.permutation(len(pictures.train))]
            for start in range(0, len(epoch) - self.batch_size + 1, self.batch_size):
                index = epoch[start : start + self.batch_size]
                tensors = {
                    "images": torch.from_numpy(pictures.floats(index)),
                    "latents": latents.normal(shape),
                    "latents_generator": latents.normal(shape),
                }
                yield Batch(index, tensors)

    def players(self, model: nn.Module) -> list[Player]:
        """Return the discriminator, then the generator, each stepped by Adam."""
        return [
            self._player("discriminator", model.discriminator, self.loss),
            self._player("generator", model.generator, self.loss_of_generator),
        ]

    def loss(self, model: nn.Module, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        """Return the discriminator's loss; nothing is carried."""
        real = model.discriminator(batch.tensors["images"])
        made = model.discriminator(model.generator(batch.tensors["latents"]))
        target = torch.full_like(real, self.real_label)
        return cross_entropy(real, target) + cross_entropy(made, torch.zeros_like(made)), None

    def loss_of_generator(self, model: nn.Module, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        """Return the generator's loss; nothing is carried."""
        images = model.generator(batch.tensors["latents_generator"])
        if self.generator_loss == "non-saturating":
            made = model.discriminator(images)
            return cross_entropy(made, torch.ones_like(made)), None
        real = model.discriminator.embed(batch.tensors["images"]).mean(dim=0)
        return (real - model.discriminator.embed(images).mean(dim=0)).square().sum(), None

    def after_backward(self, model: nn.Module, player: Player) -> None:
        """Note the norm of the player's gradient; nothing is changed."""
        squares = [p.grad.double().square().sum() for p in player.parameters.values() if p.grad is not None]
        self._norms[f"grad_norm_{player.name}"] = torch.stack(squares).sum().sqrt()

    def metrics(self, carry: Carry) -> dict[str, float | Tensor]:
        """Return the norms of both players' gradients, as their optimisers were about to use them."""
        return dict(self._norms)

    def evaluate(self, model: nn.Module, place: Place) -> dict[str, float]:
        """Return diversity and coverage of samples from fixed latents, against held-out images."""
        return self._collapse(self._samples(model, place))

    def look(self, model: nn.Module, place: Place) -> dict[str, Shown]:
        """Return samples from the first fixed latents, real images beside, and the numbers that ``evaluate`` gives."""
        samples, rows = self._samples(model, place), self._compared
        real = self.data.pictures.floats(_spread(rows, SHOWN))
        shown = {"real": real, "sample": samples[: len(real)]}
        pictures = {name: Images(images.reshape(-1, *self.data.shape)) for name, images in shown.items()}
        return {**pictures, **self._collapse(samples)}

    @property
    def _compared(self) -> Index:
        return _spread(self.data.pictures.held_out, COMPARED)

    @cached_property
    def _real(self) -> RealImages:
        return RealImages(self.data.pictures.floats(self._compared))

    def _samples(self, model: nn.Module, place: Place) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        """Return images from the same latents in every arm, block and study, as many as real ones are compared with."""
        latents = Draw("gan", 0)("fixed latents").normal((len(self._compared), self.latent))
        with torch.no_grad():
            images: Tensor = model.generator(place(latents))
        return images.float().cpu().numpy()

    def _collapse(self, samples: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> dict[str, float]:
        return {"diversity": self._real.diversity(samples), "coverage": self._real.coverage(samples)}

    def _player(self, name: str, part: nn.Module, loss: Loss) -> Player:
        parameters = dict(part.named_parameters())
        return Player(name, parameters, torch.optim.Adam(parameters.values(), lr=self.lr, betas=BETAS), loss)


def _spread(rows: Index, most: int) -> Index:
    """Return at most so many rows, evenly spread."""
    return rows[np.linspace(0, len(rows) - 1, min(most, len(rows))).astype(np.int64)]
