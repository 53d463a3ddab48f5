"""Convolutional LSTM with hard sigmoid gates and no peephole, as the authors' Keras PredNet has it.

For layer input x (all inputs concatenated, the old h among them), cell c, * a 3x3 convolution with padding 1,
. elementwise, and s(z) = clip(z/5 + 1/2, 0, 1), which is Keras's hard sigmoid (torch's own has slope 1/6):

    i = s(Wi * x + bi)     f = s(Wf * x + bf)     o = s(Wo * x + bo)     g = tanh(Wg * x + bg)
    c' = f . c + i . g     h' = o . tanh(c')

Source: coxlab/prednet, prednet.py. All four gates are one convolution here.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

TAPS = 9  # of a 3x3 kernel


def glorot_uniform_(weight: Tensor) -> None:
    """Fill a convolution's weight (out, in, 3, 3) with U(-s, s), s = sqrt(6 / (9 in + 9 out)), from torch's generator.

    The default of Keras 1's ``Convolution2D``, which PredNet's code doesn't override (keras/initializations.py,
    ``glorot_uniform``: a kernel's taps count in both fans). No recurrent weight is orthogonal there, since the old h
    enters through the same convolution as the other inputs.
    """
    scale = math.sqrt(6.0 / (TAPS * (weight.shape[0] + weight.shape[1])))
    with torch.no_grad():
        weight.uniform_(-scale, scale)


def hard_sigmoid(z: Tensor) -> Tensor:
    """Return clip(z/5 + 1/2, 0, 1)."""
    return functional.hardtanh(0.2 * z + 0.5, 0.0, 1.0)


class HardConvLSTM(nn.Module):
    """One layer. Output channels of ``weight`` are ordered i, f, o, g.

    Args:
        inputs: channels of x.
        channels: C, channels of c and h.
    """

    def __init__(self, inputs: int, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(4 * channels, inputs, 3, 3))
        self.bias = nn.Parameter(torch.zeros(4 * channels))
        for gate in self.weight.chunk(4):
            glorot_uniform_(gate)  # each gate is a convolution of its own, with its own fans

    def forward(self, x: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """Return the new c and h, each (B, C, H, W), of x (B, inputs, H, W) and the old c (B, C, H, W)."""
        channels = c.shape[1]
        ifo, g = functional.conv2d(x, self.weight, self.bias, padding=1).split((3 * channels, channels), dim=1)
        i, f, o = hard_sigmoid(ifo).chunk(3, dim=1)
        c_new = f * c + i * g.tanh()
        return c_new, o * c_new.tanh()
