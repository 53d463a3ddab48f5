"""``spec.json``: the resolved grid that a store belongs to, with the schema version and the hashes it went by."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from ablate.design.spec import GridSpec
from ablate.errors import Problem, StoreError
from ablate.record.disk import store_io, write_aside
from ablate.record.paths import StorePaths
from ablate.record.schema import SCHEMA_VERSION


@dataclass(frozen=True)
class SpecFile:
    """The resolved grid as stored.

    Attributes:
        grid: the resolved grid as JSON text.
        history: hashes of the grids that this one extended, oldest first.
    """

    grid: str
    history: tuple[str, ...]

    @property
    def hash(self) -> str:
        """Content hash of the resolved grid."""
        return spec_hash(self.grid)


def spec_hash(grid: str) -> str:
    """Return the content hash of a resolved grid's JSON text."""
    text = json.dumps(json.loads(grid), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def write_spec(paths: StorePaths, grid: GridSpec, history: Sequence[str]) -> SpecFile:
    """Write ``spec.json`` whole.

    Raises:
        StoreError: if the disk is full, read-only or fails.
    """
    text = grid.model_dump_json()
    content = {
        "schema_version": SCHEMA_VERSION,
        "spec_hash": spec_hash(text),
        "history": list(history),
        "grid": json.loads(text),
    }
    write_aside(paths.spec_json, json.dumps(content, indent=1).encode() + b"\n")
    return SpecFile(text, tuple(history))


def read_spec(paths: StorePaths) -> SpecFile:
    """Read ``spec.json``.

    Raises:
        StoreError: if it is missing, unreadable, damaged, or of a newer schema.
    """
    path = paths.spec_json
    with store_io(path):
        data = path.read_bytes()
    try:
        content = json.loads(data)
        version, grid, history = content["schema_version"], content["grid"], tuple(content["history"])
        stored = content["spec_hash"]
    except (ValueError, KeyError, TypeError) as error:
        advice = "restore it from a copy, or launch into another folder"
        raise StoreError(Problem(str(path), f"is damaged ({error})", advice=advice)) from error
    if version > SCHEMA_VERSION:
        found = f"was written with store schema {version}, newer than this ablate knows"
        raise StoreError(Problem(str(path), found, f"schema up to {SCHEMA_VERSION}", advice="upgrade ablate"))
    text = json.dumps(grid)
    if spec_hash(text) != stored:
        found = f"was changed by hand: its content has hash {spec_hash(text)}, its spec_hash says {stored}"
        raise StoreError(Problem(str(path), found, advice="restore it from a copy, or launch into another folder"))
    return SpecFile(text, history)
