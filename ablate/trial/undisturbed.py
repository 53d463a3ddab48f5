"""Looking at a model in the middle of its training without changing what comes after."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from ablate.errors import Problem
from ablate.trial import checkpoint
from ablate.trial.contract import TrainableError
from ablate.trial.draw import Draw


@contextmanager
def undisturbed(model: nn.Module | None, draw: Draw, where: str) -> Iterator[None]:
    """Run the block without gradient; buffers, training modes, generators and streams are then as before.

    What was not touched is not written either: a write would count as a change of a tensor that some graph saved.

    Args:
        model: the model; None if the framework never saw it.
        draw: the trial's streams.
        where: in words, for the message.

    Raises:
        TrainableError: the block changed a parameter, which is training and not looking.
    """
    modules = list(model.modules()) if model is not None else []
    modes = [module.training for module in modules]
    buffers = [(b, b._version, b.detach().clone()) for b in (model.buffers() if model is not None else ())]
    parameters = [(name, p, p._version) for name, p in (model.named_parameters() if model is not None else ())]
    generators, streams = checkpoint.global_generators(), checkpoint.stream_states(draw)
    try:
        with torch.no_grad():
            yield
    finally:
        checkpoint.restore_generators(generators)
        for name in draw.streams.keys() - streams.keys():
            del draw.streams[name]
        checkpoint.restore_streams(draw, streams)
        for module, mode in zip(modules, modes, strict=True):
            module.training = mode
        with torch.no_grad():
            for buffer, version, before in buffers:
                if buffer._version != version:
                    buffer.copy_(before)
    changed = [name for name, parameter, version in parameters if parameter._version != version]
    if changed:
        raise TrainableError(Problem(where, f"parameter {changed[0]!r} was changed while it was looked at"))
