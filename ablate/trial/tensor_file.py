"""Files of tensors and plain values, as torch writes them: whole or not at all, and read without running any code."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import torch

from ablate.errors import AblateError, Problem
from ablate.record.disk import store_io
from ablate.record.paths import temporary


class TensorFileError(AblateError):
    """A file of tensors that cannot be read."""


def write_tensors(path: Path, value: Any) -> None:
    """Write a value aside and rename it into place.

    Raises:
        StoreError: if the disk is full or fails.
    """
    content, aside = io.BytesIO(), temporary(path)
    torch.save(value, content)  # not into the file: torch says RuntimeError where the disk fails
    with store_io(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            aside.write_bytes(content.getbuffer())
            aside.replace(path)
        except OSError:
            aside.unlink(missing_ok=True)
            raise


def read_tensors(path: Path) -> Any:
    """Read a value, its tensors onto the CPU.

    Raises:
        TensorFileError: the file is damaged, or holds more than tensors and plain values.
    """
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, EOFError, OSError, ValueError, pickle.UnpicklingError) as error:
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise TensorFileError(Problem(str(path), f"cannot be read: {said}")) from None
