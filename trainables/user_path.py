"""A path that a user wrote into a grid: to data on the disk of whatever machine a trial runs on."""

from __future__ import annotations

import os
from pathlib import Path

from ablate.errors import BadInput, Problem


def user_path(path: str) -> Path:
    """Return the path with ``~`` and ``$NAME`` expanded; a relative one is taken from where ``ablate`` was called."""
    return Path(os.path.expandvars(path)).expanduser()


def user_folder(path: str, what: str) -> Path:
    """Return the folder at ``path``.

    Args:
        path: as the grid gives it.
        what: what it should be, for the message.

    Raises:
        BadInput: if there is none, or it isn't a folder.
    """
    folder = user_path(path)
    if not folder.exists():
        raise BadInput(Problem(str(folder), "no such folder", what))
    if not folder.is_dir():
        raise BadInput(Problem(str(folder), "isn't a folder", what))
    return folder


def stamp(files: list[Path], folder: Path) -> str:
    """Return text that changes when a file is added, renamed, resized or written again; contents aren't read.

    A data set of a user's may be too large to be hashed by every trial; ``prepare`` hashes what was decoded of it.
    """
    parts = []
    for file in files:
        stat = file.stat()
        parts.append(f"{file.relative_to(folder).as_posix()} {stat.st_size} {stat.st_mtime_ns}")
    return "\n".join(parts)
