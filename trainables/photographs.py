"""Real texture with synthetic motion: a crop window that moves over photographs from scikit-image's wheel.

The window moves sideways ``speed`` pixels a frame, in whole pixels, and turns back at the picture's edges, so every
pixel shown is a pixel of the photograph: nothing is interpolated. At speed 0 the video stands still: every target
equals the last one of its window, and a target buffer that is overwritten does no harm. Below 1 it is near-static: the
buffer's contents change now and then, and the harm is small (negative controls, both).
Three rows of each photograph make three shots. Held out: every shot of one photograph, coffee.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ablate.errors import BadInput, Problem
from trainables import cache
from trainables.decode import Frame, decode
from trainables.film import Film, Shot
from trainables.package_files import package_file

PHOTOGRAPHS = ("astronaut", "chelsea", "motorcycle_left", "coffee")
HELD_OUT = "coffee"
ROWS = (1, 2, 3)  # quarters of the height, from the top
SHOT_FRAMES = 121  # six windows of 20


def film(width: int, height: int, speed: float) -> Film:
    """Return a film of 121-frame shots, one per photograph and row; cut on the first call only.

    Args:
        width: of the window, in pixels.
        height: of the window, in pixels.
        speed: pixels a frame, 0 or more.

    Raises:
        BadInput: if scikit-image or PyAV isn't installed, a photograph is missing or damaged, or one is smaller than
            width x height.
    """
    files = [package_file("skimage", "scikit-image", f"data/{name}.png") for name in PHOTOGRAPHS]

    def make() -> cache.Frames:
        parts = []
        for file in files:
            (picture,) = decode(file, expected=1)
            parts += [moving_crop(picture, width, height, speed, row, file) for row in ROWS]
        return np.concatenate(parts)

    shots = tuple(
        Shot(f"{name}-{row}", SHOT_FRAMES * number, SHOT_FRAMES * (number + 1), name == HELD_OUT)
        for number, (name, row) in enumerate((name, row) for name in PHOTOGRAPHS for row in ROWS)
    )
    name = f"photographs-{width}x{height}-{speed:g}-{cache.key(files, f'v1 {SHOT_FRAMES} {ROWS}')}"
    return Film(cache.cached(name, make), shots)


def moving_crop(picture: Frame, width: int, height: int, speed: float, row: int, file: Path) -> cache.Frames:
    """Return one shot, uint8 (121, height, width, 3), that starts in the middle of the picture and moves right.

    Raises:
        BadInput: if the picture, uint8 (H, W, 3), is smaller than width x height.
    """
    room, drop = picture.shape[1] - width, picture.shape[0] - height
    if room < 0 or drop < 0:
        found = f"is {picture.shape[1]}x{picture.shape[0]}, smaller than the crop {width}x{height}"
        raise BadInput(Problem(str(file), found, advice="choose a smaller width and height"))
    travelled = room // 2 + np.floor(speed * np.arange(SHOT_FRAMES)).astype(np.int64)
    lefts = room - np.abs(room - travelled % max(2 * room, 1))  # to the right edge, back to the left one, and so on
    top = drop * row // (len(ROWS) + 1)
    return np.stack([picture[top : top + height, left : left + width] for left in lefts])
