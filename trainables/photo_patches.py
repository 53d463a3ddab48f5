"""Colour patches of real photographs, where there is no CIFAR-10: real texture, but neither objects nor classes.

Four photographs from scikit-image's wheel, cut into 943 disjoint squares of 32 pixels (fewer if larger), row by row; no
pixel is scaled. Every tenth patch is held out, so that those are of the same photographs and share no pixel with the
others. What is trained on them shows that code runs and compares arms; it isn't comparable with anything on CIFAR-10.
"""

from __future__ import annotations

import numpy as np

from ablate.errors import BadInput, Problem
from trainables.decode import Frame, decode
from trainables.images import Images
from trainables.package_files import package_file
from trainables.photographs import PHOTOGRAPHS

HELD_OUT = 10  # one patch in so many


def load(side: int = 32) -> Images:
    """Return the patches, as 3 side^2 values of red, then green, then blue; a label is a photograph's number.

    Raises:
        BadInput: if scikit-image or PyAV isn't installed, a photograph is missing or damaged, or gives
            fewer than ten patches.
    """
    parts, labels = [], []
    for number, name in enumerate(PHOTOGRAPHS):
        file = package_file("skimage", "scikit-image", f"data/{name}.png")
        (picture,) = decode(file, expected=1)
        part = patches(picture, side)
        if len(part) < HELD_OUT:
            found = f"gives {len(part)} patches of {side} pixels"
            raise BadInput(Problem(str(file), found, f"{HELD_OUT} or more", advice="choose a smaller side"))
        parts.append(part)
        labels += [number] * len(part)
    rows = np.arange(len(labels), dtype=np.int64)
    held_out = rows % HELD_OUT == HELD_OUT - 1
    return Images(np.concatenate(parts), np.array(labels, dtype=np.int64), rows[~held_out], rows[held_out])


def patches(picture: Frame, side: int) -> Frame:
    """Return the disjoint squares of a picture, uint8 (H, W, 3), as uint8 (N, 3 side^2); what is left over is cut."""
    down, across = picture.shape[0] // side, picture.shape[1] // side
    cut = picture[: down * side, : across * side].reshape(down, side, across, side, 3)
    return np.ascontiguousarray(cut.transpose(0, 2, 4, 1, 3)).reshape(down * across, 3 * side * side)
