"""Which launches wrote a working copy, and whether all of it is in its store: a file beside it."""

from __future__ import annotations

import json
from pathlib import Path

from ablate.record.disk import store_io, write_aside


class CopyState:
    """``<working copy>.json``.

    Attributes:
        launches: ids of the launches that wrote the copy, oldest first.
        whole: whether everything in it was in the store when this was written.
    """

    def __init__(self, root: Path) -> None:
        self._path = root.with_name(f"{root.name}.json")
        self.launches: list[str] = []
        self.whole = True
        with store_io(self._path):
            if self._path.exists():
                try:
                    content = json.loads(self._path.read_bytes())
                    self.launches, self.whole = list(content["launches"]), bool(content["whole"])
                except (ValueError, KeyError, TypeError):
                    self.whole = False  # broken off while it was written: nothing is known

    def began(self, launch: str) -> None:
        """Add a launch.

        Raises:
            StoreError: if the disk refuses.
        """
        self.launches.append(launch)
        self._write()

    def set(self, whole: bool) -> None:
        """Say whether all is in the store.

        Raises:
            StoreError: if the disk refuses.
        """
        if whole != self.whole:
            self.whole = whole
            self._write()

    def forget(self) -> None:
        """Begin a new copy.

        Raises:
            StoreError: if the disk refuses.
        """
        self.launches, self.whole = self.launches[-1:], True
        self._write()

    def _write(self) -> None:
        write_aside(self._path, json.dumps({"launches": self.launches, "whole": self.whole}).encode())
