"""A small convolutional generator and discriminator, in the manner of DCGAN (Radford et al. 2016, arXiv 1511.06434).

    z (Z)       -> linear, relu -> (2W, H/4, H/4) -> up, relu -> (W, H/2, H/2) -> up, sigmoid -> x (C, H, H)
    x (C, H, H) -> down, leaky -> (W, H/2, H/2) -> down, leaky -> (2W, H/4, H/4) -> linear, leaky -> f (A)
    f (A)       -> [minibatch discrimination (A + B)] -> linear -> logit that x is real

leaky being relu that keeps 0.2 of what is below 0.

Up and down are convolutions of 4 x 4 with stride 2 (transposed, and not). There is no batch normalisation, unlike in
DCGAN: it couples a batch's samples in every layer, which would blur what minibatch discrimination does.
Minibatch discrimination's tensor is made last, and the head's weights on what it adds are a hundredth of the others at
first: with it and without, a block's players start from the same weights, and its sums over the batch, as large as the
batch while samples are alike, don't drown the features. (At 0 exactly, a perturbation by one ulp would be one of 1e-45,
whose gradients float32 cannot hold.)
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from trainables.minibatch_discrimination import MinibatchDiscrimination

LEAK = 0.2
FURTHER = 0.01  # of torch's initial weights: on what minibatch discrimination adds


class Discriminator(nn.Module):
    """Tells real images (n, C H H) from generated ones.

    Args:
        channels: C, 1 or 3.
        side: H in pixels, a multiple of 4.
        width: W, channels after the first convolution.
        features: A, of the layer below the head; feature matching looks at it.
        kernels: B of minibatch discrimination; 0 for none.
        kernel_size: C of minibatch discrimination.
    """

    def __init__(self, channels: int, side: int, width: int, features: int, kernels: int, kernel_size: int) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Unflatten(1, (channels, side, side)),
            nn.Conv2d(channels, width, 4, stride=2, padding=1),
            nn.LeakyReLU(LEAK),
            nn.Conv2d(width, 2 * width, 4, stride=2, padding=1),
            nn.LeakyReLU(LEAK),
            nn.Flatten(),
            nn.Linear(2 * width * (side // 4) ** 2, features),
            nn.LeakyReLU(LEAK),
        )
        self.head = nn.Linear(features, 1)
        self.minibatch: nn.Module = nn.Identity()
        if kernels:
            self.head = _wider(self.head, kernels)
            self.minibatch = MinibatchDiscrimination(features, kernels, kernel_size)

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits (n,) that images (n, C H H) in [0, 1] are real."""
        logits: Tensor = self.head(self.minibatch(self.embed(images)))
        return logits.squeeze(1)

    def embed(self, images: Tensor) -> Tensor:
        """Return the features f (n, A) of images (n, C H H) in [0, 1]."""
        features: Tensor = self.features(2 * images - 1)
        return features


class GanModel(nn.Module):
    """Both players.

    Args:
        latent: Z, numbers that an image is made of.
        channels: of an image, 1 or 3.
        side: of an image in pixels, a multiple of 4.
        width: W.
        features: A.
        kernels: B of minibatch discrimination; 0 for none.
        kernel_size: C of minibatch discrimination.
    """

    def __init__(
        self, latent: int, channels: int, side: int, width: int, features: int, kernels: int, kernel_size: int
    ) -> None:
        super().__init__()
        self.generator = nn.Sequential(
            nn.Linear(latent, 2 * width * (side // 4) ** 2),
            nn.ReLU(),
            nn.Unflatten(1, (2 * width, side // 4, side // 4)),
            nn.ConvTranspose2d(2 * width, width, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.ConvTranspose2d(width, channels, 4, stride=2, padding=1),
            nn.Flatten(),
            nn.Sigmoid(),
        )
        self.discriminator = Discriminator(channels, side, width, features, kernels, kernel_size)


def _wider(head: nn.Linear, more: int) -> nn.Linear:
    """Return a head that has small weights on so many further inputs."""
    wide = nn.Linear(head.in_features + more, head.out_features)
    with torch.no_grad():
        wide.weight *= FURTHER
        wide.weight[:, : head.in_features] = head.weight
        wide.bias.copy_(head.bias)
    return wide
