"""KITTI as prepared for PredNet (Lotter et al. 2016): X_train.hkl, X_val.hkl and the source of every frame.

``X_*.hkl`` holds uint8 (N, 128, 160, 3), ``sources_*.hkl`` N texts that name each frame's recording; both are written
by coxlab/prednet's ``process_kitti.py`` or downloaded with it. A window is valid when its first and last frame have one
source; since a recording's frames stand together, that is the same as lying within a run of equal sources, which is a
shot here. The validation recordings are held out. Another size than 160x128 is cut and averaged from it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

from ablate.errors import BadInput, Problem
from trainables import cache, hickle
from trainables.decode import Frame, shrink
from trainables.film import Film, Shot
from trainables.user_path import stamp, user_folder

SPLITS = ("train", "val")
AT_ONCE = 1000  # frames in memory while they are copied into the cache


def film(path: str, width: int, height: int) -> Film:
    """Return the training and then the validation frames; copied into the cache on the first call.

    Raises:
        BadInput: if the folder or a file is missing, damaged or of another shape, h5py isn't installed, or the frames
            are smaller than width x height.
    """
    folder = user_folder(path, "the folder of X_train.hkl, sources_train.hkl, X_val.hkl and sources_val.hkl")
    files = [hickle.existing(folder / f"{kind}_{split}.hkl") for split in SPLITS for kind in ("X", "sources")]

    def read() -> Iterator[Frame]:
        for split in SPLITS:
            file = folder / f"X_{split}.hkl"
            with hickle.value(file) as frames:
                for start in range(0, len(frames), AT_ONCE):
                    for frame in frames[start : start + AT_ONCE]:
                        yield shrink(frame, width, height, file)

    key = hashlib.sha256(f"v1\n{stamp(files, folder)}".encode()).hexdigest()[:16]
    bounds = cache.cached(f"kitti-{key}-shots", lambda: _bounds(folder))
    shots = [Shot(f"{SPLITS[split]}@{start}", int(start), int(stop), bool(split)) for split, start, stop in bounds]
    return Film(cache.cached_stream(f"kitti-{width}x{height}-{key}", read), tuple(shots))


def _bounds(folder: Path) -> cache.Array:
    """Return, int64 (shots, 3): the split's number, and the first frame and the frame after the last in the film."""
    bounds: list[tuple[int, int, int]] = []
    offset = 0
    for number, split in enumerate(SPLITS):
        frames, sources = _frames(folder, split), hickle.texts(folder / f"sources_{split}.hkl")
        if frames != len(sources):
            where, found = str(folder / f"sources_{split}.hkl"), f"names the source of {len(sources)} frames"
            raise BadInput(Problem(where, found, f"{frames}, as in X_{split}.hkl"))
        edges = [0, *(n for n in range(1, frames) if sources[n] != sources[n - 1]), frames]
        bounds += [(number, offset + a, offset + b) for a, b in pairwise(edges)]
        offset += frames
    return np.array(bounds, dtype=np.int64)


def _frames(folder: Path, split: str) -> int:
    """Return how many frames a split has.

    Raises:
        BadInput: if they aren't uint8 (N, H, W, 3), N at least 1.
    """
    file = folder / f"X_{split}.hkl"
    with hickle.value(file) as found:
        shape, dtype = getattr(found, "shape", None), getattr(found, "dtype", None)
        if shape is None or len(shape) != 4 or shape[-1] != 3 or dtype != np.uint8:
            what = f"is {dtype} {shape}" if shape is not None else "holds no array"
            raise BadInput(Problem(str(file), what, "uint8 (N, 128, 160, 3)"))
        if not shape[0]:
            raise BadInput(Problem(str(file), "holds no frames", "at least one"))
        return int(shape[0])
