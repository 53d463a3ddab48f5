"""Decoded data on disk: decoded once per machine, then memory-mapped by every trial.

Folder: ``$ABLATE_CACHE``, else ``$XDG_CACHE_HOME/ablate``, else ``~/.cache/ablate``. A file's name holds a hash of
its source's bytes and of the parameters, so other bytes or other parameters are another file and nothing goes stale.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path
from typing import IO, Any

import numpy as np

from ablate.errors import BadInput, Problem

Array = np.ndarray[Any, np.dtype[Any]]
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


def cached(name: str, make: Callable[[], Array]) -> Array:
    """Return the array kept under ``name``, memory-mapped read-only; if there is none, ``make`` it.

    The file is written aside and renamed, so a reader sees a whole file or none, and two writers do no harm.

    Raises:
        BadInput: if the folder can't be written.
    """
    kept = _kept(name)
    if kept is not None:
        return kept
    array = make()
    return _keep(name, lambda part: np.save(part, array, allow_pickle=False))


def cached_stream(name: str, make: Callable[[], Iterable[Frames]]) -> Frames:
    """Return the frames kept under ``name``, as ``cached``; made one by one, so they needn't fit into memory.

    Args:
        name: of the file.
        make: yields at least one frame, all uint8 of one shape.

    Returns:
        The frames, stacked along a new first axis.
    """
    kept = _kept(name)
    if kept is not None:
        return kept
    frames = iter(make())
    first = next(frames)  # what is wrong with the data shows mostly here, before anything is written

    def header(part: IO[bytes], count: int) -> int:
        part.seek(0)
        shape = (count, *first.shape)
        np.lib.format.write_array_header_1_0(part, {"descr": "|u1", "fortran_order": False, "shape": shape})
        return part.tell()

    def write(part: IO[bytes]) -> None:
        length, count = header(part, 0), 0
        for frame in chain([first], frames):
            part.write(np.ascontiguousarray(frame).data)
            count += 1
        if header(part, count) != length:  # NumPy leaves room for a growing first axis
            raise AssertionError("the array's header grew over its data")

    return _keep(name, write)


def _kept(name: str) -> Array | None:
    try:
        return np.load(folder() / f"{name}.npy", mmap_mode="r")
    except (OSError, ValueError, EOFError):
        return None  # not there, or damaged by something other than us: it is made again; writing reports the rest


def _keep(name: str, write: Callable[[IO[bytes]], None]) -> Array:
    file = folder() / f"{name}.npy"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=file.parent, prefix=f"{name}.", suffix=".part", delete=False) as part:
            try:
                write(part)
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
