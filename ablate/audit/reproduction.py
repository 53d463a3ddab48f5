"""A minimal reproduction of a fault: one Python file under 40 lines, and the tensors it needs in one file beside it.

Made to be pasted into an issue: it exits with 1 while the fault shows and with 0 once it is gone, and prints the
numbers. One operation needs torch and safetensors only; a gradient needs the trainable it came from as well, and
ablate for the type of the batch that a trainable is handed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors.torch import save_file
from torch import Tensor

from ablate.audit.literal import Literals
from ablate.audit.operation_log import Call

_HEAD = '''"""{title}

{needs}"""
'''

_OPERATION = """\
import sys{from_path}
import torch
{setup}
{load}
def run(x, dtype):
    return {call}
def floating(result):
    some = result if isinstance(result, (tuple, list)) else [result]
    return [t.double().cpu() for t in some if isinstance(t, torch.Tensor) and t.is_floating_point()]
def wide(t):
    return torch.float64 if t.is_floating_point() else t.dtype
here = floating(run({{k: t.to({device!r}, copy=True) for k, t in x.items()}}, {dtype}))
double = floating(run({{k: t.to("cpu", wide(t), copy=True) for k, t in x.items()}}, torch.float64))
worst = 0.0
for k, (a, b) in enumerate(zip(here, double)):
    error = float((a - b).norm() / b.norm()) if b.norm() > 0 else float((a - b).norm())
    worst = max(worst, error if error == error else float("inf"))
    print(f"result {{k}} here:       {{a.flatten()[:4].tolist()}}")
    print(f"result {{k}} in float64: {{b.flatten()[:4].tolist()}}; relative error {{error:.3g}}")
print(f"largest relative error {{worst:.3g}}, bound {bound!r}")
sys.exit(worst > {bound!r})
"""

_SETUP = """\
import sys{from_path}
sys.path[:0] = {search}
import numpy as np
import torch
from safetensors.torch import load_file
from ablate.trial.protocol import Batch
from {module} import {name}
{setup}
saved = load_file({file})
def make(dtype):
    torch.set_default_dtype(dtype)
    x = {{k: t.to(dtype) if t.is_floating_point() else t for k, t in saved.items()}}
    thing = {name}(**{settings})
    model = thing.build()
    model.load_state_dict({{k[2:]: t for k, t in x.items() if k.startswith("w:")}})
    player = {{p.name: p for p in thing.players(model.to(dtype))}}[{player!r}]
    batch = Batch(np.array({index}), {{k[2:]: t for k, t in x.items() if k.startswith("b:")}})
    def loss():
        torch.manual_seed({seed})
        return (player.loss or thing.loss)(model, batch, {carry})[0]
    return model, player.parameters, loss
"""

_CLONE = """\
def gradients(save):
    _, parameters, loss = make({dtype})
    with torch.autograd.graph.saved_tensors_hooks(save, lambda t: t):
        return dict(zip(parameters, torch.autograd.grad(loss(), list(parameters.values()), allow_unused=True)))
found, right = gradients(lambda t: t), gradients(lambda t: t.clone())
errors = {{k: float((found[k] - g).norm() / g.norm()) for k, g in right.items() if g is not None and g.norm() > 0}}
worst = max(errors, key=errors.get)
print(f"{{worst}}: gradient {{found[worst].flatten()[:4].tolist()}}")
print(f"with every saved tensor cloned: {{right[worst].flatten()[:4].tolist()}}")
"""

_SLOPE = """\
model, parameters, loss = make(torch.float64)
state, errors = {{k: t.clone() for k, t in model.state_dict().items()}}, {{}}
for k, g in zip(parameters, torch.autograd.grad(loss(), list(parameters.values()), materialize_grads=True)):
    move = torch.randn(g.shape, generator=torch.Generator().manual_seed(0)) + (2 * g / g.norm() if g.any() else 0)
    ends, step = [], 1e-6 * float(parameters[k].detach().abs().mean() or 1)
    for sign in (1, -1):
        model.load_state_dict(state)
        parameters[k].data.add_(move, alpha=sign * step)
        ends.append(loss().item())
    model.load_state_dict(state)
    slope, along = (ends[0] - ends[1]) / (2 * step), float((g * move).sum())
    errors[k] = abs(along - slope) / abs(slope or 1)
    print(f"{{k}}: gradient {{along:.9g}}, slope of the loss {{slope:.9g}} along one direction")
worst = max({names}, key=errors.get)
"""

_END = """\
print(f"largest relative error {{errors[worst]:.3g}}, in {{worst}}; bound {bound!r}")
sys.exit(not errors[worst] <= {bound!r})
"""


def write_operation(
    path: Path, call: Call, bound: float, title: str, *, device: str = "cpu", setup: Sequence[str] = ()
) -> Path:
    """Write the reproduction of one operation on its recorded inputs: here, and in float64 on the CPU.

    Args:
        path: of the Python file; tensors of more than a few numbers go beside it, as ``<stem>.safetensors``.
        call: what ``recorded_call`` returned.
        bound: relative error beyond which the fault shows.
        title: what is wrong, one line.
        device: where the operation ran.
        setup: lines to run first: threads, flags, the import of a library that registers the operation.

    Returns:
        ``path``.

    Raises:
        ValueError: an argument that no Python expression can stand for.
    """
    literals = Literals("x")
    arguments = [literals.of(value) for value in call.args]
    arguments += [f"{key}={literals.of(value)}" for key, value in call.kwargs.items()]
    dtype = next((t.dtype for t in literals.tensors.values() if t.is_floating_point()), torch.float32)
    # the element type asked for follows the run's own
    text = f"{call.operation}({', '.join(arguments)})".replace(f"dtype={dtype}", "dtype=dtype")
    file = path.with_suffix(".safetensors")
    stored = literals.stored()
    load = ["x = {}"] if not stored else ["from safetensors.torch import load_file", f"x = load_file({beside(file)})"]
    load += [f"x[{key!r}] = {expression}" for key, expression in literals.inline().items()]
    load += [f"x[{key!r}] = {expression}" for key, expression in literals.layouts().items()]
    if stored:
        save_file(stored, file)
    body = _OPERATION.format(
        from_path=_path_import(bool(stored)), setup="\n".join(setup), load="\n".join(load),
        call=text, device=device, dtype=dtype, bound=bound,
    )  # fmt: skip
    return write(path, title, "torch and safetensors" if stored else "torch", body)


@dataclass(frozen=True)
class Subject:
    """What a gradient was computed from.

    Attributes:
        trainable: import path, ``my_package.my_module:Thing``.
        settings: its keyword arguments: numbers, strings, booleans, None, and lists of them.
        weights: the model's ``state_dict()`` before the step.
        batch: the batch's tensors.
        index: the batch's index.
        carry: what entered the batch: None, or tensors in dicts, lists and tuples.
        player: whose loss.
        seed: given to torch's global generator before each loss.
    """

    trainable: str
    settings: Mapping[str, Any]
    weights: Mapping[str, Tensor]
    batch: Mapping[str, Tensor]
    index: Sequence[int]
    carry: Any
    player: str
    seed: int = 0


def write_gradient(
    path: Path,
    subject: Subject,
    against: Literal["clone", "slope"],
    bound: float,
    title: str,
    *,
    dtype: torch.dtype = torch.float32,
    parameters: Sequence[str] = (),
    setup: Sequence[str] = (),
    search: Sequence[str] = (),
) -> Path:
    """Write the reproduction of a wrong gradient, through the user's trainable, on the CPU.

    Args:
        path: of the Python file; weights, batch and carry go beside it, as ``<stem>.safetensors``.
        subject: what it is computed from.
        against: ``clone``: the gradient with every saved tensor cloned, for one that was overwritten; ``slope``:
            central differences of the loss in float64, for a wrong backward.
        bound: relative error beyond which the fault shows.
        title: what is wrong, one line.
        dtype: the element type of ``clone``; slopes are taken in float64.
        parameters: those whose slopes decide; none means all.
        setup: lines to run first.
        search: folders that the trainable is imported from.

    Returns:
        ``path``.

    Raises:
        ValueError: a setting that no Python expression can stand for.
    """
    literals = Literals("x", prefix="c:")
    carry = literals.of(subject.carry)
    settings = Literals("x").of(dict(subject.settings))
    save(path, subject.weights, subject.batch, literals.tensors)
    module, _, name = subject.trainable.partition(":")
    body = _SETUP.format(
        from_path=_path_import(True), search=list(search), module=module, name=name, setup="\n".join(setup),
        file=beside(path.with_suffix(".safetensors")),
        settings=settings, player=subject.player, index=[int(k) for k in subject.index], seed=subject.seed, carry=carry,
    )  # fmt: skip
    body += _CLONE.format(dtype=dtype) if against == "clone" else _SLOPE.format(names=list(parameters) or "errors")
    return write(path, title, f"torch, numpy, safetensors, ablate and {module}", body + _END.format(bound=bound))


def save(path: Path, weights: Mapping[str, Tensor], batch: Mapping[str, Tensor], more: Mapping[str, Tensor]) -> None:
    """Store what a reproduction starts from beside it: weights as ``w:...``, the batch as ``b:...``."""
    tensors = {f"w:{name}": t for name, t in weights.items()} | {f"b:{name}": t for name, t in batch.items()}
    copies = {key: t.detach().cpu().contiguous().clone() for key, t in (tensors | dict(more)).items()}
    save_file(copies, path.with_suffix(".safetensors"))


def beside(file: Path) -> str:
    """Return the expression for a file in the reproduction's own folder."""
    return f"Path(__file__).with_name({file.name!r})"


def _path_import(needed: bool) -> str:
    return "\nfrom pathlib import Path" if needed else ""


def write(path: Path, title: str, needs: str, body: str) -> Path:
    """Write a reproduction: a line of what is wrong, what it needs, and the program without its empty lines."""
    clean = " ".join(title.split()).replace("\\", "/").replace('"', "'")
    text = _HEAD.format(title=clean, needs=f"Exits with 1 while the fault shows. Needs {needs}.") + body
    path.write_text("\n".join(line for line in text.split("\n") if line.strip()) + "\n")
    return path
