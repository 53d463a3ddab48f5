"""A log of what modules put out and of the gradients that come back to them: what can be seen of a compiled model.

Hooks see each module's output and its gradient, and each parameter's gradient, in the order in which they arise. They
break a compiled region into its modules, so that a fault of fusing across modules can vanish while this looks.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ablate.audit.operation import tensors
from ablate.audit.operation_log import Record, Seen, seen

PARAMETER = "gradient.parameter "
"""How the name of the record of a parameter's gradient begins; its input is the gradient of its module's output."""


def log_modules(run: Callable[[], object], model: nn.Module) -> list[Record]:
    """Run a step and return one record for each output of a module and each gradient; the hooks are gone afterwards."""
    records: list[Record] = []

    arrived: dict[str, Seen] = {}

    def note(operation: str, module: str, inputs: tuple[Seen, ...], output: Tensor, backward: bool) -> None:
        records.append(Record(operation, inputs, (seen(output),), 1, backward, "", "", module))

    def note_gradient(label: str, name: str, gradient: Tensor) -> None:
        note(f"gradient.{label}", label, (), gradient, True)
        arrived[name] = records[-1].outputs[0]

    def note_parameter(name: str, gradient: Tensor) -> None:
        above = arrived.get(name.rpartition(".")[0])
        note(f"{PARAMETER}{name}", f"parameter {name}", (above,) if above else (), gradient, True)

    def watch(name: str, label: str) -> Callable[[nn.Module, Any, Any], None]:
        def hook(module: nn.Module, args: Any, output: Any) -> None:
            inputs = tuple(seen(t) for t in tensors(args) if t.is_floating_point())
            for t in tensors(list(output.values()) if isinstance(output, dict) else output):
                if t.is_floating_point():
                    note(f"output.{label}", label, inputs, t, False)
                    if t.requires_grad:
                        _on_gradient(t, lambda gradient: note_gradient(label, name, gradient))

        # not compiled: what it reads is gone once a compiled region has run
        made: Callable[[nn.Module, Any, Any], None] = torch.compiler.disable(hook)  # type: ignore[no-untyped-call]
        return made

    handles = []
    for name, module in model.named_modules():
        label = f"{name or 'the model itself'} ({type(module).__name__})"
        handles.append(module.register_forward_hook(watch(name, label)))
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            handles.append(_on_gradient(parameter, partial(note_parameter, name)))
    try:
        run()
    finally:
        for handle in handles:
            handle.remove()
    return records


def _on_gradient(t: Tensor, look: Callable[[Tensor], None]) -> Any:
    return t.register_hook(look)  # type: ignore[no-untyped-call]
