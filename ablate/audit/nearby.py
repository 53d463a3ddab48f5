"""Where in the user's program a tensor was saved: read off the Python stack, with no hook on any module.

Module hooks would be the obvious way to know which layer is running, but they change what runs: a module with hooks
leaves torch's fast path for attention, and torch.compile compiles it anew. The stack costs nothing when nobody looks,
and a frame's code object and instruction offset are enough to name the line later, without keeping the frame alive.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from types import CodeType
from typing import NamedTuple

import torch
from torch import Tensor, nn

_CALL = nn.Module._wrapped_call_impl.__code__
_ROOTS = tuple(
    os.path.join(os.path.realpath(path), "")
    for path in (os.path.dirname(torch.__file__), os.path.dirname(os.path.dirname(__file__)))
)
_LIBRARY = os.path.join(os.path.realpath(sysconfig.get_path("stdlib")), "")
_PACKAGES = ("site-packages", "dist-packages")
_FRAMES_ABOVE = 8


class _Foreign(dict[str, bool]):
    """File name -> whether its code is the user's."""

    def __missing__(self, file: str) -> bool:
        real = os.path.realpath(file)
        library = real.startswith(_LIBRARY) and not any(part in real[len(_LIBRARY) :] for part in _PACKAGES)
        generated = file.startswith(("<frozen", "<eval_with_key", "<__array_function__"))
        answer = self[file] = not (real.startswith(_ROOTS) or library or generated)
        return answer


_USERS = _Foreign()


class Place(NamedTuple):
    """Where the program was: a line, and the innermost module whose forward was running."""

    code: CodeType | None
    offset: int
    module_id: int
    module_class: str


def here() -> Place:
    """Return the first place above the caller that is outside torch, ablate and the standard library.

    The innermost module is looked for up to eight frames above that place. A module is noted by its identity, never
    by a reference: a module that keeps a tensor with its graph would then keep itself alive for ever.
    """
    frame = sys._getframe().f_back
    code: CodeType | None = None
    offset = module_id = 0
    module_class = ""
    above = 0
    while frame is not None:
        current = frame.f_code
        if current is _CALL:
            if not module_id:
                module = frame.f_locals["self"]
                module_id, module_class = id(module), type(module).__name__
                if code is not None:
                    break
        elif code is None:
            if _USERS[current.co_filename]:
                code, offset = current, frame.f_lasti
                if module_id:
                    break
        else:
            above += 1
            if above > _FRAMES_ABOVE:
                break
        frame = frame.f_back
    return Place(code, offset, module_id, module_class)


def source(place: Place) -> str:
    """Return ``path:line in function``, the path relative to the working directory if below it; empty if unknown."""
    if place.code is None:
        return ""
    lines = (line for start, end, line in place.code.co_lines() if start <= place.offset < end and line)
    line = next(lines, place.code.co_firstlineno)
    file = place.code.co_filename
    below = os.path.join(os.getcwd(), "")
    return f"{file.removeprefix(below)}:{line} in {place.code.co_qualname}"


def near(t: Tensor, place: Place, last_parameter: int, model: nn.Module | None) -> str:
    """Say in words what a saved tensor is, or what it is near to.

    Args:
        t: the saved tensor.
        place: where it was saved.
        last_parameter: identity of the last parameter that was saved before it; 0 if none was.
        model: gives the names; None if it is not known.

    Returns:
        The parameter or buffer that it is (or is a view of); else the module whose forward saved it; else the last
        parameter used before it; else an empty string.
    """
    if model is None:
        return f"inside a module of class {place.module_class}" if place.module_id else ""
    for kind, named in (("parameter", model.named_parameters()), ("buffer", model.named_buffers())):
        for name, tensor in named:
            if _same_storage(t, tensor):
                return f"{kind} {name}"
    if place.module_id:
        for name, module in model.named_modules():
            if id(module) == place.module_id:
                return f"inside module {name or 'the model itself'} ({place.module_class})"
        return f"inside a module of class {place.module_class}, which is no part of the model"
    for name, parameter in model.named_parameters():
        if id(parameter) == last_parameter:
            return f"outside every module, after parameter {name}"
    return "outside every module"


def _same_storage(a: Tensor, b: Tensor) -> bool:
    try:
        return bool(a.untyped_storage()._cdata == b.untyped_storage()._cdata)
    except (RuntimeError, NotImplementedError):  # sparse and other layouts have no storage
        return False
