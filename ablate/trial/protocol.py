"""What a trainable is: the contract between a user's model and the loop that trains, audits and records it.

Two kinds. A *structured* trainable is a class whose methods are called by the framework's loop (``Structured``). A
*function* trainable is ``train(config, ctx)`` and owns its loop (see ``ablate.trial.context``). Either is named in the
grid by an import path, ``my_package.my_module:Thing``; nothing is registered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from ablate.trial.draw import Draw

Carry = Any
"""State handed from one batch to the next: None, or nested dicts/lists of detached tensors."""

Place = Callable[[Tensor], Tensor]
"""Moves a CPU float32 tensor to the trial's device and precision. A trainable never chooses either."""


@dataclass(frozen=True)
class Batch:
    """One batch, identical in every arm of a block.

    Attributes:
        index: int64 array naming the samples in it, in order; hashed for every batch.
        tensors: name -> tensor. Made by ``batches()`` as contiguous CPU tensors, whose contents are hashed before
            the framework casts floating ones to the arm's precision and moves them to its device.
    """

    index: np.ndarray[Any, np.dtype[np.int64]]
    tensors: Mapping[str, Tensor]


@dataclass(frozen=True)
class Images:
    """Pictures of inputs or outputs, an artifact: (N, C, H, W) with C 1 or 3, uint8 or floats in [0, 1]."""

    values: Tensor | np.ndarray[Any, Any]


@dataclass(frozen=True)
class Maps:
    """Sizes of something at every pixel, such as errors, an artifact: (N, 1, H, W), from 0 up.

    ``ablate show`` draws them in colours on one scale for all arms.
    """

    values: Tensor | np.ndarray[Any, Any]


Shown = Images | Maps | Tensor | np.ndarray[Any, Any] | float
"""What an artifact may be. Images and maps are pictures for ``ablate show``; the others are only stored."""

Loss = Callable[[nn.Module, Batch, Carry], tuple[Tensor, Carry]]


@dataclass(frozen=True)
class Player:
    """Named parameters with the optimiser that steps them, and the loss they lower (None: the trainable's own)."""

    name: str
    parameters: Mapping[str, nn.Parameter]
    optimiser: torch.optim.Optimizer
    loss: Loss | None = None


class Structured(Protocol):
    """A trainable whose loop the framework owns. Built as ``Thing(**settings)``.

    Settings are the keyword-only arguments of ``__init__``, annotated and with defaults; the grid is checked
    against them without importing the module.

    Optional attribute, also of a function trainable: ``independent_rows = True`` says that row i of every tensor of a
    batch is sample ``index[i]`` and that nothing carried to the next batch belongs to a row. Arms that permute rows are
    refused without it: what a first dimension means (samples, or the frames of a window) only the trainable knows.
    Arms with several ``workers`` need ``mean_over_rows = True`` as well: the loss, and every metric, of a batch is the
    mean over its rows of what each row gives by itself. Each worker's loss is then called with a share of the rows.

    Optional methods, called when present:

    - ``after_backward(model, player)`` and ``after_step(model, player)``: clipping, schedules.
    - ``metrics(carry) -> dict[str, float | Tensor]``: named numbers of this batch, read off the new carry.
    - ``state() -> dict`` and ``restore(state)``: what the trainable itself keeps between batches (a schedule's count),
      for checkpoints; model, optimisers and carries are saved anyway.
    - ``evaluate(model, place) -> dict[str, float]``: held-out outcomes after the last batch, without gradient.
    - ``look(model, place) -> dict[str, Shown]``: what the model does with a few fixed, held-out inputs, the same in
      every arm; called without gradient after the batches named under ``artifacts`` in the grid. Pictures have one N,
      one column each in ``ablate show``, in the dict's order. The model's buffers and modes, and all generators, are
      put back afterwards.
    """

    def prepare(self) -> str:
        """Check the data and cache what is slow to decode; return a hash of the data set. Raise BadInput if it is bad.

        Called once per distinct settings before any trial starts, and never inside a trial.
        """
        ...

    def build(self) -> nn.Module:
        """Make the model in float32 on the CPU, drawing from torch's seeded global generator."""
        ...

    def batches(self, draw: Draw) -> Iterator[Batch]:
        """Yield batches without end; order and noise come from ``draw(stream)`` only."""
        ...

    def players(self, model: nn.Module) -> list[Player]:
        """Return the players, stepped in order; a model with one loss has one."""
        ...

    def loss(self, model: nn.Module, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        """Return the scalar loss with its graph, and the carry for the next batch (None before the first)."""
        ...
