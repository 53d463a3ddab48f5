"""Undeclared draws: whether a batch drew from a global generator instead of the trial's own streams.

Global generators differ between arms before arithmetic does (torch's normal draws depend on the instruction set, a
GPU has a generator of its own), so a draw from one confounds the comparison. Their states are compared before and
after: 20 microseconds or so, and nothing is drawn.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

CHECK = "undeclared_draws"
"""Name of this check in the audits table."""


@dataclass(frozen=True)
class UndeclaredDraw:
    """A global generator that moved during a batch.

    Attributes:
        batch_index: the batch.
        generator: ``torch``, ``torch cuda:0``, ``numpy`` or ``random``.
        near: modules of the model that may have drawn, as ``name (Class)``; empty if none is of a kind known to draw.
        detail: what happened and what to do, in words.
    """

    batch_index: int
    generator: str
    near: tuple[str, ...]
    detail: str


@contextmanager
def undeclared_draws(batch_index: int, model: nn.Module | None = None) -> Iterator[list[UndeclaredDraw]]:
    """Watch one batch; the list is filled when the context ends without an exception.

    Args:
        batch_index: named in the findings.
        model: its drawing modules are named in findings about torch's generators.

    Yields:
        The findings, one for each generator that moved.
    """
    findings: list[UndeclaredDraw] = []
    before = {name: state() for name, state in _generators().items()}
    yield findings
    for name, state in _generators().items():
        # a generator that appeared during the batch has nothing to be compared with
        if name in before and state() != before[name]:
            findings.append(_finding(batch_index, name, model))


def drawing_modules(model: nn.Module) -> tuple[str, ...]:
    """Return the modules that draw in forward as the model now stands, as ``name (Class)``, in the model's order."""
    return tuple(
        f"{name or 'the model itself'} ({type(module).__name__})"
        for name, module in model.named_modules()
        if _draws(module)
    )


def _draws(module: nn.Module) -> bool:
    """Whether a module of torch's own draws; modules of the user's are not known here."""
    if isinstance(module, nn.FractionalMaxPool2d | nn.FractionalMaxPool3d):
        return module._random_samples is None
    if not module.training:
        return False
    if isinstance(module, nn.RNNBase):
        return bool(module.dropout > 0 and module.num_layers > 1)
    if isinstance(module, nn.MultiheadAttention):
        return bool(module.dropout > 0)
    if isinstance(module, nn.RReLU):
        return bool(module.lower < module.upper)
    return isinstance(module, nn.modules.dropout._DropoutNd) and module.p > 0


def _generators() -> dict[str, Callable[[], object]]:
    generators: dict[str, Callable[[], object]] = {
        "torch": lambda: torch.default_generator.get_state().numpy().tobytes(),
        "numpy": _numpy_state,
        "random": random.getstate,
    }
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        for index in range(torch.cuda.device_count()):
            generators[f"torch cuda:{index}"] = lambda index=index: torch.cuda.get_rng_state(index).numpy().tobytes()  # type: ignore[misc]
    return generators


def _numpy_state() -> object:
    state = np.random.get_state(legacy=False)  # the global state is what is asked about
    return repr({k: v for k, v in state.items() if k != "state"}), _frozen(state["state"])


def _frozen(state: object) -> object:
    if isinstance(state, dict):
        return tuple((key, _frozen(value)) for key, value in state.items())
    return state.tobytes() if isinstance(state, np.ndarray) else state


def _finding(batch_index: int, generator: str, model: nn.Module | None) -> UndeclaredDraw:
    near = drawing_modules(model) if model is not None and generator.startswith("torch") else ()
    who = f"modules that draw: {', '.join(near)}" if near else "no module of torch's own is known to draw here"
    return UndeclaredDraw(
        batch_index=batch_index,
        generator=generator,
        near=near,
        detail=f"the global generator of {generator} moved during the batch; {who}; take such numbers from the "
        "trial's own streams (ctx.draw), which no arm changes",
    )
