"""PredNet as one writes it in torch: a module a gate and input, each a convolution of its own; the peer of the step.

The same function as ``trainables.prednet_model`` (its header has the formulas), with its weights: where that one holds
a tensor for all gates of all inputs, this one holds one for each, under the names of the Chainer scripts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from trainables.prednet_model import PredNetModel, State

GATES = ("i", "f", "o", "g")
"""In the order of the fused weight's output channels."""


class GateByGateLSTM(nn.Module):
    """A convolutional LSTM with peepholes; arguments as those of ``trainables.conv_lstm.PeepholeConvLSTM``."""

    def __init__(self, inputs: Sequence[int], channels: int, height: int, width: int) -> None:
        super().__init__()
        self.x = nn.ModuleDict(
            {
                gate: nn.ModuleList(nn.Conv2d(part, channels, 3, padding=1, bias=False) for part in inputs)
                for gate in GATES
            }
        )
        self.h = nn.ModuleDict({gate: nn.Conv2d(channels, channels, 3, padding=1) for gate in GATES})
        self.c = nn.ParameterDict({gate: nn.Parameter(torch.zeros(1, channels, height, width)) for gate in GATES[:3]})

    def _gate(self, gate: str, inputs: Sequence[Tensor], h: Tensor) -> Tensor:
        return self.h[gate](h) + sum(conv(x) for conv, x in zip(self.x[gate], inputs, strict=True))

    def forward(self, inputs: Sequence[Tensor], c: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """Return the new c and h."""
        i = torch.sigmoid(self._gate("i", inputs, h) + self.c["i"] * c)
        f = torch.sigmoid(self._gate("f", inputs, h) + self.c["f"] * c)
        o = torch.sigmoid(self._gate("o", inputs, h) + self.c["o"] * c)
        c_new = i * torch.tanh(self._gate("g", inputs, h)) + f * c
        return c_new, o * torch.tanh(c_new)


class GateByGate(nn.Module):
    """The network, with the weights that ``model`` has now."""

    def __init__(self, model: PredNetModel) -> None:
        super().__init__()
        self.shapes = model.shapes
        channels = [c for c, _, _ in self.shapes]
        above = [(c,) for c in channels[1:]] + [()]
        self.lstm = nn.ModuleList(
            GateByGateLSTM((2 * c, *up), c, h, w) for (c, h, w), up in zip(self.shapes, above, strict=True)
        )
        self.conv_a = nn.ModuleList(nn.Conv2d(2 * below, c, 3, padding=1) for below, c in pairwise(channels))
        self.conv_p = nn.ModuleList(nn.Conv2d(c, c, 3, padding=1) for c in channels)
        like = next(model.parameters())
        self.to(like.dtype)
        parts = dict(pieces(model, {name: p.detach() for name, p in model.named_parameters()}))
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                parameter.copy_(parts[name])

    def start(self, batch: int, like: Tensor) -> State:
        """Return the state before the first frame."""
        zeros = [like.new_zeros((batch, *shape)) for shape in self.shapes]
        return State(list(zeros), list(zeros), list(zeros))

    def forward(self, x: Tensor, state: State) -> tuple[State, list[Tensor]]:
        """Show one frame; as ``PredNetModel.forward``, without the second result."""
        layers = len(self.shapes)
        errors: list[Tensor] = []
        for layer in range(layers):
            a = functional.max_pool2d(functional.relu(self.conv_a[layer - 1](errors[-1])), 2) if layer else x
            p = state.prediction[layer]
            errors.append(torch.cat([functional.relu(a - p), functional.relu(p - a)], dim=1))
        prediction, cell, hidden = [*state.prediction], [*state.cell], [*state.hidden]
        for layer in reversed(range(layers)):
            inputs = [errors[layer]]
            if layer < layers - 1:
                inputs.append(functional.interpolate(hidden[layer + 1], scale_factor=2, mode="nearest"))
            cell[layer], hidden[layer] = self.lstm[layer](inputs, state.cell[layer], state.hidden[layer])
            prediction[layer] = functional.relu(self.conv_p[layer](hidden[layer]))
        prediction[0] = torch.clamp(prediction[0], max=1.0)
        return State(prediction, cell, hidden), []


def pieces(model: PredNetModel, tensors: dict[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """Cut what the fused model has per parameter, its values or its gradients, into ``GateByGate``'s parameters."""
    layers = len(model.shapes)
    for layer, (channels, _, _) in enumerate(model.shapes):
        parts = [2 * channels, *([model.shapes[layer + 1][0]] if layer < layers - 1 else []), channels]
        at = f"lstm.{layer}"
        for number, gate in enumerate(GATES):
            rows = slice(number * channels, (number + 1) * channels)
            *of_inputs, of_hidden = tensors[f"{at}.weight"][rows].split(parts, dim=1)
            yield from ((f"{at}.x.{gate}.{nth}.weight", weight) for nth, weight in enumerate(of_inputs))
            yield f"{at}.h.{gate}.weight", of_hidden
            yield f"{at}.h.{gate}.bias", tensors[f"{at}.bias"][rows]
            if gate != "g":
                yield f"{at}.c.{gate}", tensors[f"{at}.peephole"][:, number]
    yield from ((name, tensor) for name, tensor in tensors.items() if name.startswith(("conv_a", "conv_p")))
