"""Files that only grow, uploaded while they do: in segments, so that a long file is not sent again and again.

Segment 0 has the file's own name and later ones ``NAME.seg1``, ``NAME.seg2``, ...: a file up to ``SEGMENT`` bytes is
one object under its final name. Only the last segment is ever written again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from ablate.errors import Problem, StoreError
from ablate.remote.objects import Objects

SEGMENT = 4 * 2**20
"""About 80 000 rows of a journal. Each look sends at most the last segment: 4 MiB every 10 s at the very most."""
_NAME = re.compile(r"^(?P<base>.+?)(?:\.seg(?P<number>[0-9]+))?$")


class Growing:
    """One file and what of it is uploaded."""

    def __init__(self, path: Path, name: str) -> None:
        self._path = path
        self._name = name
        self._sent = 0

    def send(self, objects: Objects) -> None:
        """Upload what is new; nothing if the file is not there.

        Raises:
            StoreError: if the store refuses; what was sent before stays.
        """
        try:
            file = self._path.open("rb")
        except FileNotFoundError:
            return
        with file:
            size = file.seek(0, 2)
            at = min(self._sent, size) // SEGMENT * SEGMENT  # a write that failed half-way is cut off again
            while self._sent != size:
                file.seek(at)
                content = file.read(min(SEGMENT, size - at))
                number = at // SEGMENT
                objects.write(f"{self._name}.seg{number}" if number else self._name, content)
                at += len(content)
                self._sent = at
                if len(content) < SEGMENT:
                    break


def segments(names: Iterable[str]) -> dict[str, list[str]]:
    """Return the segments of each file, in order.

    Raises:
        StoreError: if one is missing.
    """
    found: dict[str, dict[int, str]] = {}
    for name in names:
        base, number = _told_apart(name)
        found.setdefault(base, {})[number] = name
    for base, numbered in found.items():
        if sorted(numbered) != list(range(len(numbered))):
            advice = "something deleted it: restore it, or delete the others, and the trial runs again"
            raise StoreError(Problem(base, f"has segments {sorted(numbered)} only", advice=advice))
    return {base: [numbered[number] for number in sorted(numbered)] for base, numbered in found.items()}


def file_of(name: str) -> str:
    """Return the name of the file that an object is a segment of."""
    return _told_apart(name)[0]


def last_first(names: Iterable[str]) -> list[str]:
    """Return the order to delete in: whoever lists them meanwhile finds no segment missing before another one."""

    def place(name: str) -> tuple[str, int]:
        base, number = _told_apart(name)
        return base, -number

    return sorted(names, key=place)


def size_of(parts: Iterable[str], sizes: Mapping[str, int]) -> int:
    """Return the size of a file from the sizes of its segments."""
    return sum(sizes[part] for part in parts)


def _told_apart(name: str) -> tuple[str, int]:
    match = _NAME.match(name)
    assert match is not None
    return match["base"], int(match["number"] or 0)
