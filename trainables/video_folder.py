"""Any folder of videos on the user's disk, such as the 113 AVI files of FPSI (first-person social interactions).

Every video below the folder is read, in the order of its path. Each file is one shot, unless cuts are to be detected
(see ``cuts``). The last tenth of the files, at least one, is held out; if there is one file only, the last tenth of its
shots. Frames are centre-cropped, scaled by whole-number block means, and decoded once per machine into the cache. The
paper's scripts (Pietrowski et al. 2021) trained on FPSI; which of its files, they don't say.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

from ablate.errors import BadInput, Problem
from trainables import cache
from trainables.cuts import cuts, difference
from trainables.decode import Frame, decode, shrink
from trainables.film import Film, Shot
from trainables.user_path import stamp, user_folder

SUFFIXES = (".avi", ".m4v", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg", ".ogv", ".webm", ".wmv", ".y4m")
CUTS = ("none", "detect")
HELD_OUT = 10  # one file in so many


def videos(folder: Path) -> list[Path]:
    """Return the videos below ``folder``, sorted by path.

    Raises:
        BadInput: if there is none.
    """
    files = sorted(file for file in folder.rglob("*") if file.suffix.lower() in SUFFIXES and file.is_file())
    if not files:
        raise BadInput(Problem(str(folder), "holds no video", f"files that end in {', '.join(SUFFIXES)}"))
    return files


def film(path: str, width: int, height: int, cut: str = "none", most: int = 0, least: int = 2) -> Film:
    """Return the videos, concatenated; decoded on the first call only.

    Args:
        path: of the folder.
        width: of a frame, in pixels.
        height: of a frame, in pixels.
        cut: none or detect.
        most: frames read of each file; 0 for all.
        least: frames that every file must have.

    Raises:
        BadInput: if the folder is missing or holds no video, PyAV isn't installed, or a video is unreadable, truncated,
            empty, smaller than width x height, or has fewer frames than ``least``; or if nothing can be held out.
    """
    folder = user_folder(path, "a folder of videos")
    files = videos(folder)
    bounds: list[tuple[int, int, int]] = []  # of a shot: its file's number, first frame, frame after the last

    def read() -> Iterator[Frame]:
        bounds.clear()
        start = 0
        for number, file in enumerate(files):
            differences: list[float] = []
            last = None
            for frame in decode(file, most=most or None):
                small = shrink(frame, width, height, file)
                if last is not None:
                    differences.append(difference(last, small))
                last = small
                yield small
            edges = [0, *(cuts(differences) if cut == "detect" else []), len(differences) + 1]
            bounds.extend((number, start + a, start + b) for a, b in pairwise(edges))
            start += edges[-1]

    def find_bounds() -> cache.Array:
        if not bounds:
            deque(read(), maxlen=0)
        return np.array(bounds, dtype=np.int64)

    key = hashlib.sha256(f"v1 block mean {cut} {most}\n{stamp(files, folder)}".encode()).hexdigest()[:16]
    name = f"videos-{width}x{height}-{key}"
    frames = cache.cached_stream(name, read)
    table = [(int(number), int(start), int(stop)) for number, start, stop in cache.cached(f"{name}-shots", find_bounds)]
    _check_lengths(files, table, least)
    return Film(frames, _shots(folder, files, table))


def _check_lengths(files: list[Path], table: list[tuple[int, int, int]], least: int) -> None:
    length = dict.fromkeys(range(len(files)), 0)
    for number, start, stop in table:
        length[number] += stop - start
    problems = [
        Problem(
            str(files[number]),
            f"has {frames} frame{'s' if frames != 1 else ''}, and a window needs {least}",
            advice="take it out of the folder, or choose a shorter window",
        )
        for number, frames in length.items()
        if frames < least
    ]
    if problems:
        raise BadInput(*problems)


def _shots(folder: Path, files: list[Path], table: list[tuple[int, int, int]]) -> tuple[Shot, ...]:
    """Name the shots and hold out the last tenth of the files, or of the one file's shots."""
    units = len(files) if len(files) > 1 else len(table)
    if units < 2:
        found = "is one shot, so nothing can be held out"
        advice = "add another video, or write `cuts: detect`"
        raise BadInput(Problem(str(files[0]), found, "two shots or more", advice=advice))
    first_held_out = units - max(1, units // HELD_OUT)
    shots = []
    for position, (number, start, stop) in enumerate(table):
        name = f"{files[number].relative_to(folder).as_posix()}@{start}"
        unit = number if len(files) > 1 else position
        shots.append(Shot(name, start, stop, unit >= first_held_out))
    return tuple(shots)
