"""A minimal reproduction of what an arm's settings make wrong: one step by them, and one by the reference arm's.

Both run the user's trainable from the same weights, batch and carry, in float32 and in float64. The difference in
float64, where rounding is gone, is the fault; with equal settings the file finds none and exits with 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from ablate.audit.literal import Literals
from ablate.audit.reproduction import beside, save, write

_STEPS = """\
import sys
from pathlib import Path
sys.path[:0] = {search}
import numpy as np
import torch
from safetensors.torch import load_file
from ablate.trial.fingerprint import state
from ablate.trial.local_audit import Value, values
from ablate.trial.protocol import Batch
from ablate.trial.seen import Seen
from ablate.trial.step import Stepper
from {module} import {name}
torch.set_num_threads(1)
saved = load_file({file})
def step(settings, dtype):
    torch.set_default_dtype(dtype)
    x = {{k: t.to(dtype) if t.is_floating_point() else t for k, t in saved.items()}}
    thing = {name}(**settings)
    model = thing.build()
    stepper = Stepper(thing, model.to(dtype))
    for k, t in state(model).items():
        t.data.copy_(x["w:" + k])
    stepper.carries = {carries}
    seen = Seen(stepper)
    torch.manual_seed(0)
    stepper.step(Batch(np.array({index}), {{k[2:]: t for k, t in x.items() if k.startswith("b:")}}), seen)
    return dict(values(seen))[Value({quantity!r}, {value!r})].double()
arms = {{{arm!r}: {settings}, {against!r}: {reference}}}
for dtype in (torch.float32, torch.float64):
    a, b = (step(settings, dtype) for settings in arms.values())
    error = float((a - b).norm() / (b.norm() or 1))
    for arm, t in zip(arms, (a, b)):
        print(f"{what} in {{dtype}}, {{arm}}: {{t.flatten()[:4].tolist()}}, norm {{float(t.norm()):.9g}}")
print(f"largest relative error {{error:.3g}} in float64, bound {bound!r}")
sys.exit(not error <= {bound!r})
"""


@dataclass(frozen=True)
class Differing:
    """A value that two arms' settings make different, and what both start from.

    Attributes:
        trainable: import path, ``my_package.my_module:Thing``.
        arm: the arm's name.
        settings: its settings: numbers, strings, booleans, None, and lists of them.
        against: the reference arm's name.
        reference: its settings.
        weights: the model's parameters and buffers before the step, as ``fingerprint.state`` gives them.
        batch: the batch's tensors.
        index: the batch's index.
        carries: player -> what enters its loss: None, or tensors in dicts, lists and tuples.
        quantity: loss, gradient, update or state.
        name: of the player, parameter or state entry.
    """

    trainable: str
    arm: str
    settings: Mapping[str, Any]
    against: str
    reference: Mapping[str, Any]
    weights: Mapping[str, Tensor]
    batch: Mapping[str, Tensor]
    index: Sequence[int]
    carries: Mapping[str, Any]
    quantity: str
    name: str


def write_settings(path: Path, found: Differing, bound: float, title: str, search: Sequence[str] = ()) -> Path:
    """Write the reproduction; it exits with 1 while the value's relative difference in float64 exceeds the bound.

    Args:
        path: of the Python file; weights, batch and carries go beside it, as ``<stem>.safetensors``.
        found: what differs.
        bound: what rounding in float64 explains, relative to the reference's norm (to 1 where that is 0).
        title: what is wrong, one line.
        search: folders that the trainable is imported from.

    Returns:
        ``path``.

    Raises:
        ValueError: a setting or carry that no Python expression can stand for.
    """
    literals = Literals("x", prefix="c:")
    carries = literals.of(dict(found.carries))
    plain = Literals("x")
    settings, reference = plain.of(dict(found.settings)), plain.of(dict(found.reference))
    module, _, name = found.trainable.partition(":")
    body = _STEPS.format(
        search=list(search), module=module, name=name, file=beside(path.with_suffix(".safetensors")), carries=carries,
        index=[int(k) for k in found.index], quantity=found.quantity, value=found.name, arm=found.arm,
        settings=settings, against=found.against, reference=reference, bound=bound,
        what=f"{found.quantity} of {found.name}",
    )  # fmt: skip
    save(path, found.weights, found.batch, literals.tensors)
    return write(path, title, f"torch, numpy, safetensors, ablate and {module}", body)
