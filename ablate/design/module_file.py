"""The file that ``import a.b.c`` would read, found without importing anything, not even the packages around it."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path


def find_module(name: str, search: Sequence[Path]) -> Path | None:
    """Return the file of the module ``name``, or None if there is none.

    Packages are entered step by step, each by its last name in its parent's folders, so no ``__init__`` runs.

    Args:
        name: dotted name.
        search: folders that come before ``sys.path``.
    """
    folders: list[str] | None = [*map(str, search), *sys.path]
    spec: ModuleSpec | None = None
    for part in name.split("."):
        if folders is None:
            return None
        spec = PathFinder.find_spec(part, folders)
        if spec is None:
            return None
        locations = spec.submodule_search_locations
        folders = list(locations) if locations is not None else None
    return Path(spec.origin) if spec is not None and spec.origin and spec.has_location else None


def module_names(name: str, search: Sequence[Path]) -> list[str]:
    """Return the modules beside which ``name`` would stand, for a suggestion."""
    parent, _, _ = name.rpartition(".")
    folders = [*search] if not parent else []
    if parent:
        origin = find_module(parent, search)
        folders = [origin.parent] if origin is not None and origin.name == "__init__.py" else []
    names = set()
    for folder in folders:
        try:
            names |= {
                entry.stem
                for entry in folder.iterdir()
                if entry.suffix == ".py" or (entry.is_dir() and (entry / "__init__.py").is_file())
            }
        except OSError:
            continue
    prefix = f"{parent}." if parent else ""
    return sorted(prefix + stem for stem in names if stem.isidentifier() and not stem.startswith("__"))


def source_text(file: Path) -> str:
    """Return the source of a Python file, decoded as Python would.

    Raises:
        OSError: the file cannot be read.
        SyntaxError: its encoding is not what it declares.
        UnicodeDecodeError: likewise.
    """
    return importlib.util.decode_source(file.read_bytes())
