"""Decoded data on disk: decoded once per machine, then memory-mapped by every trial.

Folder: ``$ABLATE_CACHE``, else ``$XDG_CACHE_HOME/ablate``, else ``~/.cache/ablate``. A file's name holds a hash of
its source's bytes and of the parameters, so other bytes or other parameters are another file and nothing goes stale.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from ablate.errors import BadInput, Problem

Frames = np.ndarray[Any, np.dtype[np.uint8]]


def folder() -> Path:
    """Return the folder that decoded data are kept in."""
    if given := os.environ.get("ABLATE_CACHE"):
        return Path(given)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "ablate"


def key(sources: Iterable[Path], parameters: str) -> str:
    """Return 16 hex digits that depend on every source's bytes, their order, and the parameters."""
    digest = hashlib.sha256(parameters.encode())
    for source in sources:
        digest.update(hashlib.sha256(source.read_bytes()).digest())
    return digest.hexdigest()[:16]


def cached(name: str, make: Callable[[], Frames]) -> Frames:
    """Return the array kept under ``name``, memory-mapped read-only; if there is none, ``make`` it.

    The file is written aside and renamed, so a reader sees a whole file or none, and two writers do no harm.

    Raises:
        BadInput: if the folder can't be written.
    """
    file = folder() / f"{name}.npy"
    try:
        return np.load(file, mmap_mode="r")
    except (OSError, ValueError, EOFError):
        pass  # not there, or damaged by something other than us: make it again; writing reports what else is wrong
    array = make()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=file.parent, prefix=f"{name}.", suffix=".part", delete=False) as part:
            try:
                np.save(part, array, allow_pickle=False)
                part.flush()
                os.replace(part.name, file)
            except BaseException:
                os.unlink(part.name)
                raise
    except OSError as error:
        advice = "set ABLATE_CACHE to a folder that can be written"
        raise BadInput(
            Problem(str(file.parent), f"decoded data can't be kept: {error.strerror}", advice=advice)
        ) from error
    return np.load(file, mmap_mode="r")
