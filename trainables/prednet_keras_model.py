"""PredNet (Lotter et al. 2016, arXiv 1605.08104), the Keras family: one time step, as in the authors' coxlab/prednet.

For layers l = 0 .. L-1 at H/2^l x W/2^l, with R, cell c and error E of the step before (all 0 at the start), first
top-down, with nearest-neighbour upsampling (see ``hard_conv_lstm`` for the cell):

    R_l = ConvLSTM_l(R_l, E_l, up(R_{l+1} of this step))

then bottom-up:

    A_0 = x;  Ahat_l = relu(ConvAhat_l * R_l), and Ahat_0 also clipped at 1
    E_l = concat(relu(Ahat_l - A_l), relu(A_l - Ahat_l));  A_{l+1} = maxpool2(relu(ConvA_l * E_l))

A and R have the same number of channels. Weights are Glorot uniform, biases start at 0. So R and Ahat are exactly 0 in
the first step, where the derivative of relu is taken as 0, as torch and TensorFlow take it (Theano: 1/2).

The Chainer family (``prednet_model``) differs: bottom-up first, soft gates with peepholes, other losses and weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from trainables.hard_conv_lstm import HardConvLSTM, glorot_uniform_


@dataclass(frozen=True)
class State:
    """What one step hands to the next; a list entry per layer.

    Attributes:
        r: R_l, (B, C_l, H/2^l, W/2^l).
        cell: c_l, of the same shape.
        error: E_l, (B, 2 C_l, H/2^l, W/2^l).
    """

    r: list[Tensor]
    cell: list[Tensor]
    error: list[Tensor]


class PredNetKerasModel(nn.Module):
    """The network.

    Args:
        channels: C_l of A_l and R_l, bottom first; their number is the number of layers.
        height: of a frame, divisible by 2^(layers - 1).
        width: likewise.
    """

    def __init__(self, channels: Sequence[int], height: int, width: int) -> None:
        super().__init__()
        self.shapes = [(c, height >> layer, width >> layer) for layer, c in enumerate(channels)]
        above = (*channels[1:], 0)
        self.lstm = nn.ModuleList(HardConvLSTM(3 * c + up, c) for c, up in zip(channels, above, strict=True))
        self.conv_ahat = nn.ModuleList(_conv(c, c) for c in channels)
        self.conv_a = nn.ModuleList(_conv(2 * below, c) for below, c in pairwise(channels))

    def start(self, batch: int, like: Tensor) -> State:
        """Return the state before the first frame: zeros of the device and precision of ``like``."""
        zeros = [like.new_zeros((batch, *shape)) for shape in self.shapes]
        return State(zeros, list(zeros), [torch.cat((zero, zero), dim=1) for zero in zeros])

    def forward(self, x: Tensor, state: State) -> tuple[State, Tensor]:
        """Show one frame.

        Args:
            x: (B, C_0, H, W).
            state: of the step before.

        Returns:
            The new state, and Ahat_0, the prediction of x made before x was seen: (B, C_0, H, W).
        """
        layers = len(self.shapes)
        r, cell, error = [*state.r], [*state.cell], [*state.error]
        for layer in reversed(range(layers)):
            inputs = [state.r[layer], state.error[layer]]
            if layer < layers - 1:
                inputs.append(functional.interpolate(r[layer + 1], scale_factor=2.0, mode="nearest"))
            cell[layer], r[layer] = self.lstm[layer](torch.cat(inputs, dim=1), state.cell[layer])
        a = prediction = x
        for layer in range(layers):
            ahat = self.conv_ahat[layer](r[layer])
            ahat = functional.hardtanh(ahat, 0.0, 1.0) if layer == 0 else ahat.relu()
            prediction = ahat if layer == 0 else prediction
            difference = ahat - a
            error[layer] = torch.cat((difference, -difference), dim=1).relu_()
            if layer < layers - 1:
                # relu after the pooling: the same value and gradient, on a quarter of the pixels
                a = functional.max_pool2d(self.conv_a[layer](error[layer]), 2).relu()
        return State(r, cell, error), prediction


def _conv(inputs: int, outputs: int) -> nn.Conv2d:
    conv = nn.Conv2d(inputs, outputs, 3, padding=1)
    glorot_uniform_(conv.weight)
    nn.init.zeros_(conv.bias)
    return conv
