"""What is differentiated twice: the mean loss of one fixed probe set, always the same function of the parameters."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ablate.errors import AblateError, Problem, nearest

Loss = Callable[[nn.Module, Any], Tensor]
"""The mean loss over a batch's samples, from the model and the batch."""


class CurvatureError(AblateError):
    """A Hessian that cannot be had: a loss that is no number, an operation without a second derivative."""

    exit_code = 2


@dataclass(frozen=True)
class Objective:
    """A scalar function of named parameters, as a weighted sum of parts.

    Attributes:
        parameters: name -> tensor that requires a gradient; the order is that of flat vectors.
        parts: each gives one micro-batch's mean loss with its graph, the same value at every call.
        weights: of the parts; they sum to 1.
    """

    parameters: Mapping[str, Tensor]
    parts: tuple[Callable[[], Tensor], ...]
    weights: tuple[float, ...]

    @property
    def dimension(self) -> int:
        """How many numbers the parameters are."""
        return sum(p.numel() for p in self.parameters.values())

    @property
    def device(self) -> torch.device:
        """Where the parameters lie."""
        return next(iter(self.parameters.values())).device

    @property
    def dtype(self) -> torch.dtype:
        """The parameters' precision."""
        return next(iter(self.parameters.values())).dtype

    def split(self, vector: Tensor) -> list[Tensor]:
        """Cut a flat vector (n,) into the parameters' shapes."""
        pieces = torch.split(vector, [p.numel() for p in self.parameters.values()])
        return [piece.view(p.shape) for piece, p in zip(pieces, self.parameters.values(), strict=True)]


def objective(
    model: nn.Module,
    loss: Loss,
    batches: Sequence[Any],
    dtype: torch.dtype = torch.float64,
    device: torch.device | str | None = None,
    seed: int = 0,
    sizes: Sequence[int] | None = None,
    only: Collection[str] | None = None,
) -> Objective:
    """Return the mean loss over all samples of ``batches`` as a function of a copy of the model's parameters.

    The model itself is never touched. The copy keeps its modes: dropout in a model that trains draws the same mask at
    every call (from ``seed``), batch norm uses the batch and its running numbers are put back.

    Args:
        model: in train or eval mode, as it is to be looked at.
        loss: the mean over a batch's samples.
        batches: the probe set; a batch is a tensor, or tensors in tuples, lists and dicts.
        dtype: precision of the copy and of floating tensors in the batches.
        device: where to compute; None for where the model is.
        seed: of what the loss draws.
        sizes: samples in each batch; None for the first dimension of its first tensor.
        only: names of the parameters to vary, one player's for instance; None for all. The others are held.

    Raises:
        CurvatureError: no batch, no parameter that requires a gradient, or none of a name in ``only``, or a model that
            cannot be copied.
    """
    if not batches:
        raise CurvatureError(Problem("probe", "no batch to compute the loss on", "at least one batch"))
    place = torch.device(device) if device is not None else next(model.parameters(), torch.zeros(0)).device
    try:
        twin = copy.deepcopy(model).to(device=place, dtype=dtype)
    except RuntimeError as error:
        advice = "A tensor that was computed and kept on a module cannot be copied: store it detached."
        raise CurvatureError(Problem("probe: copying the model", str(error), "", "", advice)) from None
    parameters = {name: p for name, p in twin.named_parameters() if p.requires_grad}
    if only is not None:
        for name in only:
            if name not in parameters:
                found, allowed = f"no parameter {name!r} that requires a gradient", ", ".join(parameters)
                raise CurvatureError(Problem("probe", found, allowed, nearest(name, parameters)))
        parameters = {name: p for name, p in parameters.items() if name in only}
    if not parameters:
        raise CurvatureError(Problem("probe", "no parameter of the model requires a gradient"))
    moved = [cast(batch, dtype, place) for batch in batches]
    counts = list(sizes) if sizes is not None else [_samples(batch) for batch in moved]

    def part(i: int) -> Callable[[], Tensor]:
        def value() -> Tensor:
            with same_draws(seed + i), _buffers_as_found(twin):
                return loss(twin, moved[i])

        return value

    total = sum(counts)
    return Objective(parameters, tuple(part(i) for i in range(len(moved))), tuple(c / total for c in counts))


def cast(value: Any, dtype: torch.dtype, device: torch.device) -> Any:
    """Return nested tensors on a device, floating ones in a precision; anything else as it is."""
    if isinstance(value, Tensor):
        return value.detach().to(device=device, dtype=dtype if value.is_floating_point() else value.dtype)
    if isinstance(value, Mapping):
        return {key: cast(inner, dtype, device) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        inner = [cast(one, dtype, device) for one in value]
        return type(value)(*inner) if hasattr(value, "_fields") else type(value)(inner)
    return value


def _samples(batch: Any) -> int:
    found = next(_tensors(batch), None)
    if found is None or found.ndim == 0:
        allowed = "a batch whose first tensor has samples in its first dimension, or sizes=[...]"
        raise CurvatureError(Problem("probe", "cannot tell how many samples a batch has", allowed))
    return len(found)


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _tensors(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _tensors(inner)


@contextmanager
def same_draws(seed: int) -> Iterator[None]:
    """Start torch's, NumPy's and Python's global generators at ``seed``; afterwards they are where they were."""
    numpy_state, python_state = np.random.get_state(), random.getstate()
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        np.random.seed(seed % 2**32)
        random.seed(seed)
        try:
            yield
        finally:
            np.random.set_state(numpy_state)
            random.setstate(python_state)


@contextmanager
def _buffers_as_found(model: nn.Module) -> Iterator[None]:
    """Replace buffers for the block: the graph keeps what it saved, and the next call finds what this one found."""
    found = [(module, name, b) for module in model.modules() for name, b in module._buffers.items() if b is not None]
    for module, name, buffer in found:
        module._buffers[name] = buffer.clone()
    try:
        yield
    finally:
        for module, name, buffer in found:
            module._buffers[name] = buffer
