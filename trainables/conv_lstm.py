"""Convolutional LSTM with peepholes (Shi et al. 2015, arXiv 1506.04214), as the Chainer PredNet has it.

For layer input x (all inputs concatenated), state (c, h), * a 3x3 convolution with padding 1, . elementwise:

    i = sigmoid(Wxi * x + Whi * h + bi + Wci . c)        g  = tanh(Wxg * x + Whg * h + bg)
    f = sigmoid(Wxf * x + Whf * h + bf + Wcf . c)        c' = g . i + f . c
    o = sigmoid(Wxo * x + Who * h + bo + Wco . c)        h' = o . tanh(c')

It differs from Shi et al. in one point: the output gate looks at the old c. Only hidden convolutions have a bias.
All four gates of all inputs are one convolution here, since concatenating inputs is adding their convolutions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

TAPS = 9  # of a 3x3 kernel


def lecun_normal_(weight: Tensor) -> None:
    """Fill a convolution's weight (out, in, 3, 3) with normals of variance 1 / fan-in, drawn from torch's generator."""
    with torch.no_grad():
        weight.normal_(0.0, 1.0 / math.sqrt(weight.shape[1] * TAPS))


class PeepholeConvLSTM(nn.Module):
    """One layer. Output channels of ``weight`` are ordered i, f, o, g; its input channels as ``inputs``, then h.

    Args:
        inputs: channels of each input, in the order they are concatenated.
        channels: C, channels of c and h.
        height: H of the layer.
        width: W of the layer.
    """

    def __init__(self, inputs: Sequence[int], channels: int, height: int, width: int) -> None:
        super().__init__()
        parts = (*inputs, channels)
        self.weight = nn.Parameter(torch.empty(4 * channels, sum(parts), 3, 3))
        self.bias = nn.Parameter(torch.zeros(4 * channels))
        self.peephole = nn.Parameter(torch.empty(1, 3, channels, height, width))
        for part in self.weight.split(parts, dim=1):
            lecun_normal_(part)  # each input is a convolution of its own, with its own fan-in
        with torch.no_grad():
            self.peephole.normal_(0.0, 1.0 / math.sqrt(width * height * channels))

    def forward(self, x: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """Return the new c and h, each (B, C, H, W).

        Args:
            x: the inputs and the old h, concatenated: (B, sum(inputs) + C, H, W).
            c: the old cell state (B, C, H, W).
        """
        channels = c.shape[1]
        ifo, g = functional.conv2d(x, self.weight, self.bias, padding=1).split((3 * channels, channels), dim=1)
        i, f, o = (ifo + (self.peephole * c.unsqueeze(1)).flatten(1, 2)).sigmoid().chunk(3, dim=1)
        c_new = i * g.tanh() + f * c
        return c_new, o * c_new.tanh()
