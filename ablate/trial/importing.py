"""Imports the trainable that a grid names, and hashes the source it came from."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def load(path: str, search: Sequence[str]) -> Any:
    """Import ``package.module:Thing``, looking in ``search`` first; errors of the module pass through."""
    for folder in reversed(search):
        if folder not in sys.path:
            sys.path.insert(0, folder)
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


def is_structured(trainable: Any) -> bool:
    """Say whether the trainable is a class whose loop the framework owns (else it is ``train(config, ctx)``)."""
    return inspect.isclass(trainable)


def source_hash(trainable: Any) -> str:
    """Return the hash of every loaded source file of the trainable's top-level package, as 16 hex digits.

    The whole package, since a model rarely stands in one file; other packages are covered by their versions.
    """
    top = trainable.__module__.partition(".")[0]
    digest = hashlib.sha256()
    for name, module in sorted(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if (name == top or name.startswith(top + ".")) and file and file.endswith(".py"):
            digest.update(name.encode())
            digest.update(Path(file).read_bytes())
    return digest.hexdigest()[:16]
