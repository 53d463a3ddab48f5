"""Everything that one batch starts from, copied: so that the batch can be stepped again, in another precision."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ablate.trial import checkpoint
from ablate.trial.protocol import Batch
from ablate.trial.step import Stepper


@dataclass(frozen=True)
class Snapshot:
    """A stepper before a batch.

    Attributes:
        batch_index: which batch.
        batch: as the arm was given it: cast, moved, permuted.
        state: what ``Stepper.collect`` gave.
        modes: the training flag of every module.
        generators: states of the global generators.
    """

    batch_index: int
    batch: Batch
    state: dict[str, Any]
    modes: dict[str, bool]
    generators: dict[str, Any]


def snapshot(stepper: Stepper, batch: Batch, batch_index: int) -> Snapshot:
    """Copy what the batch in hand starts from."""
    return Snapshot(
        batch_index=batch_index,
        batch=Batch(batch.index.copy(), mapped(batch.tensors, _copy)),
        state=mapped(stepper.collect(), _copy),
        modes={name: module.training for name, module in stepper.model.named_modules()},
        generators=checkpoint.global_generators(),
    )


def begin(stepper: Stepper, at: Snapshot, dtype: torch.dtype, device: torch.device, options: Mapping[str, Any]) -> None:
    """Put ``stepper``, whose model has ``dtype`` and is on ``device``, where ``at`` was taken.

    At the first batch an optimiser gets ``options``, the parameter groups it was built with, by player: nothing has
    changed them yet, and they may be what two arms differ in. Later ones are the snapshot's, which a schedule may have
    moved.
    """
    state = {**at.state, "carries": _cast(at.state["carries"], dtype, device)}
    state["optimisers"] = mapped(state["optimisers"], _copy)
    if at.batch_index == 0:
        for player in stepper.players:
            state["optimisers"][player.name]["param_groups"] = mapped(options[player.name], _copy)
    stepper.restore(state)
    for name, module in stepper.model.named_modules():
        module.training = at.modes.get(name, module.training)


def batch_of(at: Snapshot, dtype: torch.dtype, device: torch.device) -> Batch:
    """Return the batch in another precision."""
    return Batch(at.batch.index.copy(), _cast(at.batch.tensors, dtype, device))


def _cast(value: Any, dtype: torch.dtype, device: torch.device) -> Any:
    def cast(t: Tensor) -> Tensor:
        wanted = dtype if t.is_floating_point() else t.dtype
        moved = t.to(device=device, dtype=wanted, copy=True).detach()
        return moved.contiguous() if moved.layout is torch.strided else moved

    return mapped(value, cast)


def mapped(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """Return nested dicts, lists and tuples with every tensor changed."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, dict):
        return {key: mapped(one, change) for key, one in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(mapped(one, change) for one in value))
    if isinstance(value, list | tuple):
        return type(value)(mapped(one, change) for one in value)
    return value


def _copy(tensor: Tensor) -> Tensor:
    return tensor.detach().clone()
