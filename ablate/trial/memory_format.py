"""``memory_format: channels_last``: images and kernels lie in memory pixel by pixel instead of channel by channel.

Only 4-d tensors have such a layout. Values and shapes are the same, so it changes no hash; it chooses other kernels,
and these sum in another order.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ablate.design.trial_spec import MemoryFormat
from ablate.errors import Problem
from ablate.trial.effect import ArmNotInEffect


def laid_out(tensor: Tensor, asked: MemoryFormat) -> Tensor:
    """Return ``tensor`` in the layout asked for; one that has it, or cannot have it, as it is and not copied."""
    if asked == "contiguous" or tensor.dim() != 4 or tensor.layout is not torch.strided:
        return tensor
    return tensor.contiguous(memory_format=torch.channels_last)


def lay_out(model: nn.Module, asked: MemoryFormat) -> None:
    """Give every 4-d parameter and buffer of ``model`` the layout asked for, in place, and check it.

    Raises:
        ArmNotInEffect: channels_last was asked for and no parameter has 4 dimensions, or one did not take it.
    """
    if asked == "contiguous":
        return
    for tensor in (*model.parameters(), *model.buffers()):
        tensor.data = laid_out(tensor.data, asked)
    kernels = [(name, parameter) for name, parameter in model.named_parameters() if parameter.dim() == 4]
    if not kernels:
        found = f"asked for {asked}, but no parameter of the model has 4 dimensions"
        raise ArmNotInEffect(Problem("memory_format", found, advice="It concerns the kernels of 2-d convolutions."))
    wrong = [name for name, parameter in kernels if not parameter.is_contiguous(memory_format=torch.channels_last)]
    if wrong:
        raise ArmNotInEffect(Problem("memory_format", f"asked for {asked}, parameter {wrong[0]!r} has another layout"))
