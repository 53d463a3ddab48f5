"""PredNet (Lotter et al. 2016, arXiv 1605.08104), the Chainer family: one time step.

The architecture of the public Chainer scripts (quadjr/PredNet, eijwat/prednet_in_chainer), which differs from the
authors' Keras code in more than the library. For layers l = 0 .. L-1 at H/2^l x W/2^l, with prediction P, cell c and
hidden h = R of the step before (all 0 at the start), first bottom-up:

    A_0 = x;  A_l = maxpool2(relu(ConvA_l * E_{l-1}));  E_l = concat(relu(A_l - P_l), relu(P_l - A_l))

then top-down, with nearest-neighbour upsampling (see ``conv_lstm`` for the cell):

    R_l = ConvLSTM_l(E_l, up(R_{l+1}));  P_l = relu(ConvP_l * R_l), and P_0 also clipped at 1

Convolutions are 3x3 with padding 1 and LeCun normal weights; biases start at 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from trainables.conv_lstm import PeepholeConvLSTM, lecun_normal_


@dataclass(frozen=True)
class State:
    """What one step hands to the next; a list entry per layer, each (B, C_l, H/2^l, W/2^l).

    Attributes:
        prediction: P_l, of the frame that comes next.
        cell: c_l.
        hidden: h_l = R_l.
    """

    prediction: list[Tensor]
    cell: list[Tensor]
    hidden: list[Tensor]


class PredNetModel(nn.Module):
    """The network.

    Args:
        channels: C_l of A_l and R_l, bottom first; their number is the number of layers.
        height: of a frame, divisible by 2^(layers - 1).
        width: likewise.
    """

    def __init__(self, channels: Sequence[int], height: int, width: int) -> None:
        super().__init__()
        self.shapes = [(c, height >> layer, width >> layer) for layer, c in enumerate(channels)]
        above = [(c,) for c in channels[1:]] + [()]
        self.lstm = nn.ModuleList(
            PeepholeConvLSTM((2 * c, *up), c, h, w) for (c, h, w), up in zip(self.shapes, above, strict=True)
        )
        self.conv_a = nn.ModuleList(_conv(2 * below, c) for below, c in pairwise(channels))
        self.conv_p = nn.ModuleList(_conv(c, c) for c in channels)

    def start(self, batch: int, like: Tensor) -> State:
        """Return the state before the first frame: zeros of the device and precision of ``like``."""
        zeros = [like.new_zeros((batch, *shape)) for shape in self.shapes]
        return State(list(zeros), list(zeros), list(zeros))

    def predict(self, layer: int, pre: Tensor) -> Tensor:
        """Return P_l of ConvP_l's output."""
        # hardtanh, not clamp: at exactly 0 and 1 its gradient is 0, as that of Chainer's clipped_relu
        return functional.hardtanh(pre, 0.0, 1.0) if layer == 0 else pre.relu()

    def forward(self, x: Tensor, state: State) -> tuple[State, list[Tensor]]:
        """Show one frame.

        Args:
            x: (B, C_0, H, W).
            state: of the step before.

        Returns:
            The new state, whose ``prediction[0]`` is P_0, and every layer's output of ConvP_l before its relu.
        """
        layers = len(self.shapes)
        errors: list[Tensor] = []
        a = x
        for layer in range(layers):
            if layer:
                # relu after the pooling: the same value and gradient, on a quarter of the pixels
                a = functional.max_pool2d(self.conv_a[layer - 1](errors[-1]), 2).relu()
            p = state.prediction[layer]
            difference = a - p
            errors.append(torch.cat((difference, -difference), dim=1).relu_())
        cell, hidden, pre = [*state.cell], [*state.hidden], [*state.hidden]
        for layer in reversed(range(layers)):
            inputs = [errors[layer], state.hidden[layer]]
            if layer < layers - 1:
                inputs.insert(1, functional.interpolate(hidden[layer + 1], scale_factor=2.0, mode="nearest"))
            cell[layer], hidden[layer] = self.lstm[layer](torch.cat(inputs, dim=1), state.cell[layer])
            pre[layer] = self.conv_p[layer](hidden[layer])
        return State([self.predict(layer, z) for layer, z in enumerate(pre)], cell, hidden), pre


def _conv(inputs: int, outputs: int) -> nn.Conv2d:
    conv = nn.Conv2d(inputs, outputs, 3, padding=1)
    lecun_normal_(conv.weight)
    nn.init.zeros_(conv.bias)
    return conv
