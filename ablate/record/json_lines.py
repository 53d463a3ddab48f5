"""A journal of JSON lines: each appended whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from ablate.record.disk import append_whole, store_io


class JsonLines:
    """A file of lines that one process appends to; it does not exist before the first."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None

    def append(self, columns: Mapping[str, Any]) -> None:
        """Append one line. When this returns, it survives the death of any process on this machine.

        Raises:
            StoreError: if the disk is full or fails.
        """
        if self._fd is None:
            with store_io(self._path):
                self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        append_whole(self._fd, json.dumps(columns, default=jsonable).encode() + b"\n", self._path)

    def sync(self) -> None:
        """Make the lines durable.

        Raises:
            StoreError: if the disk fails.
        """
        if self._fd is not None:
            with store_io(self._path):
                os.fsync(self._fd)

    def close(self) -> None:
        """Close the file; the next line opens it again."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a file, leaving out one that was never acknowledged; none if there is no file."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def jsonable(value: Any) -> Any:
    """Return what JSON has no word for in its words: times, NumPy's numbers, sequences."""
    if isinstance(value, datetime):
        return value.isoformat()
    return value.item() if hasattr(value, "item") else list(value)
