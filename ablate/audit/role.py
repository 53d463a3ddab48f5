"""What an operation saved a tensor for, read off the graph node that is asking for it back.

Needed for words in a finding, and because a few operations write to tensors that they saved themselves. torch's table
of derivatives has these: batch normalisation saves its running mean and variance before it updates them, and does not
use them in the backward of a training step; rrelu saves its noise before it draws it. Neither moves a version counter,
and neither is a fault.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import torch

_SAVED = "_raw_saved_"


class Role(NamedTuple):
    """Which operation asks, and under which name it saved the tensor; empty where that cannot be had."""

    operation: str
    name: str
    written_by_itself: bool


def role(packed: object) -> Role:
    """Return the role of what a pack hook returned, in the backward step that is running."""
    node: Any = torch._C._current_autograd_node()
    if node is None:
        return Role("", "", False)
    operation = str(node.name())
    for attribute in dir(node):
        if attribute.startswith(_SAVED):
            saved = getattr(node, attribute)
            for one in saved if isinstance(saved, tuple | list) else (saved,):
                if getattr(one, "data", None) is packed:
                    name = attribute.removeprefix(_SAVED)
                    return Role(operation, name, _written_by_itself(node, operation, name))
    return Role(operation, "", False)


def _written_by_itself(node: Any, operation: str, name: str) -> bool:
    if name == "noise":
        return operation.startswith("RreluWithNoise")
    if name not in ("running_mean", "running_var") or "NoUpdate" in operation or "NoTraining" in operation:
        return False
    for flag in ("_saved_training", "_saved_train", "_saved_update"):
        if hasattr(node, flag):
            return bool(getattr(node, flag))
    return True


def writes_what_it_saves() -> bool:
    """Say whether the backward step that is running may belong to an operation that writes to what it saved.

    Quick, where ``role`` looks at everything that was saved.
    """
    return _may_write(type(torch._C._current_autograd_node()))


@cache
def _may_write(node: type) -> bool:
    return any(hasattr(node, _SAVED + name) for name in ("noise", "running_mean", "running_var"))
