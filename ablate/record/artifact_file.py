"""Images and arrays of one batch in one ``.npz`` file, which any NumPy reads without running code.

A trial's process writes the file aside, renames it, and only then journals the artifacts in it. A resumed attempt takes
over the earlier one's lines and with them its files, so files are deleted only once their trial is finished.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ablate.errors import Problem, StoreError
from ablate.record.disk import store_io, write_aside
from ablate.record.paths import StorePaths

if TYPE_CHECKING:  # pyarrow has no place in a trial's process
    from ablate.record.parts import PartedData

Array = np.ndarray[Any, Any]
_ADVICE = "delete the trial's rows or restore the file from a copy; losses and verdict do not depend on it"


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> str:
    """Write the arrays, whole or not at all; return the file's sha256.

    Raises:
        StoreError: if the disk is full or fails.
    """
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    write_aside(path, buffer.getvalue())
    return hashlib.sha256(buffer.getvalue()).hexdigest()


def read_arrays(path: Path) -> dict[str, Array]:
    """Read every array of a file, by name.

    Raises:
        StoreError: if it is missing or damaged.
    """
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except FileNotFoundError as error:
        raise StoreError(Problem(str(path), "is missing", advice=_ADVICE)) from error
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise StoreError(Problem(str(path), f"is damaged ({error})", advice=_ADVICE)) from error


def file_digest(path: Path) -> str:
    """Return a file's sha256.

    Raises:
        OSError: if it cannot be read.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def discard_superseded(paths: StorePaths, finished: Iterable[str], artifacts: PartedData) -> None:
    """Delete the files of finished trials that no row of ``artifacts`` names: those of attempts that do not count.

    Raises:
        StoreError: if the file system refuses, or a part cannot be read.
    """
    files = [path for trial_id in finished for path in paths.artifact_files_of(trial_id)]
    if not files:
        return
    trials = {path.name.rpartition("-")[0].rpartition("-")[0] for path in files}
    tables = artifacts.read({key for key in artifacts.keys if key.trial_id in trials}).values()
    kept = {name for table in tables for name in table["file"].to_pylist()}
    for path in files:
        if path.name not in kept:
            with store_io(path):
                path.unlink(missing_ok=True)
