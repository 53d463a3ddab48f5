"""Whether what a command is going to write can be written where it was asked to, before the work is done for it."""

from __future__ import annotations

import os
from pathlib import Path

from ablate.errors import BadInput, Problem


def check_file(path: Path, option: str) -> None:
    """Check that a file can be written at ``path``, over an older one too.

    Args:
        path: the file.
        option: the option that named it, for the message.

    Raises:
        BadInput: a folder is there, or ``path``'s own folder is not, or it cannot be written.
    """
    if path.is_dir():
        raise BadInput(Problem(f"{option} {path}", "is a folder", "a file", advice=f"Such as {path / 'NAME'}?"))
    check_parent(path, option)


def check_parent(path: Path, option: str) -> None:
    """Check that something can be made at ``path``.

    Raises:
        BadInput: its folder is not there, or cannot be written.
    """
    parent = path.absolute().parent
    if not parent.is_dir():
        advice = f"Make it (mkdir -p), or choose another {option}."
        raise BadInput(Problem(f"{option} {path}", f"{parent} is no folder", advice=advice))
    if not os.access(parent, os.W_OK | os.X_OK):
        advice = f"Choose a folder that you may write as {option}."
        raise BadInput(Problem(f"{option} {path}", f"{parent} cannot be written", advice=advice))
