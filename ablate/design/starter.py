"""Writes the files of ``ablate init`` into a folder, never over existing ones."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from ablate.errors import BadInput, Problem

FILES = ("grid.yaml", "my_trainable.py")


def write_starter(folder: Path) -> list[Path]:
    """Copy the starter files into ``folder``, which is made if missing, and return their paths.

    Raises:
        BadInput: if one of them is there already, or the folder cannot be written.
    """
    targets = [folder / name for name in FILES]
    if present := [target for target in targets if target.exists()]:
        raise BadInput(*(Problem(str(target), "is there already", advice="Use an empty folder.") for target in present))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for target in targets:
            target.write_bytes((resources.files("ablate.starter") / target.name).read_bytes())
    except OSError as error:
        raise BadInput(Problem(str(folder), f"cannot be written: {error.strerror}")) from error
    return targets
