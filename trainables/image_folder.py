"""A folder of pictures on the user's disk, such as ImageNet's: read one by one when a batch asks for them.

Every picture below the folder belongs to it, in the order of its path; those of one subfolder have one label. Every
tenth is held out. From a picture's centre the largest square of k side x k side pixels is averaged over blocks of
k x k, in integers, so that nothing depends on how a library scales. In memory are the names, and of the pictures those
last decoded, up to 256 MiB: the folder may be larger than memory, and isn't copied. ``digest`` reads every file once.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError

from ablate.errors import BadInput, Problem
from trainables.decode import Frame, shrink
from trainables.images import Index
from trainables.user_path import user_folder

SUFFIXES = (".bmp", ".jpeg", ".jpg", ".png", ".ppm", ".webp")
HELD_OUT = 10  # one picture in so many
MOST_BYTES = 256 * 2**20


class ImageFolder:
    """Pictures on disk; what ``Images`` gives of a data set in memory, this gives of them.

    Args:
        path: of the folder.
        side: of a picture in pixels, once it is cut and averaged.

    Attributes:
        files: sorted by path.
        labels: int64 (N,), the number of a file's folder.
        train: int64, rows to train on.
        held_out: int64, the other rows.

    Raises:
        BadInput: if there is no such folder, or it holds fewer than ten pictures.
    """

    def __init__(self, path: str, side: int) -> None:
        self._folder = user_folder(path, "a folder of pictures")
        found = (file for file in self._folder.rglob("*") if file.suffix.lower() in SUFFIXES and file.is_file())
        self.files = sorted(found)
        if len(self.files) < HELD_OUT:
            what = f"holds {len(self.files)} pictures, of which every tenth would be held out"
            allowed = f"{HELD_OUT} or more files that end in {', '.join(SUFFIXES)}"
            raise BadInput(Problem(str(self._folder), what, allowed))
        self._side = side
        folders = [file.parent for file in self.files]
        self.labels: Index = np.unique([str(one) for one in folders], return_inverse=True)[1].astype(np.int64)
        rows = np.arange(len(self.files), dtype=np.int64)
        held_out = rows % HELD_OUT == HELD_OUT - 1
        self.train, self.held_out = rows[~held_out], rows[held_out]
        self._decoded = lru_cache(maxsize=max(1, MOST_BYTES // (3 * side * side)))(self._decode)

    def floats(self, rows: Index) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        """Return pictures as float32 (len(rows), 3 side^2) in [0, 1]: red, then green, then blue.

        Raises:
            BadInput: if a file is missing, no picture, damaged, or smaller than ``side``.
        """
        pixels = np.stack([self._decoded(int(row)) for row in rows])
        return pixels.astype(np.float32) / np.float32(255)

    def digest(self) -> str:
        """Return a hash of every file's name and bytes, and of the side, 64 hex digits."""
        digest = hashlib.sha256(f"v1 {self._side} {HELD_OUT}".encode())
        for file in self.files:
            with file.open("rb") as stream:
                content = hashlib.file_digest(stream, "sha256").digest()
            digest.update(file.relative_to(self._folder).as_posix().encode() + b"\0" + content)
        return digest.hexdigest()

    def _decode(self, row: int) -> Frame:
        file = self.files[row]
        rgb = _rgb(file)
        small = shrink(rgb, self._side, self._side, file)
        return np.ascontiguousarray(small.transpose(2, 0, 1)).reshape(-1)


def _rgb(file: Path) -> Frame:
    """Return a file's picture, uint8 (H, W, 3); grey, palette and CMYK become RGB, transparency is dropped."""
    try:
        with Image.open(file) as picture:
            return np.asarray(picture.convert("RGB"))
    except UnidentifiedImageError as error:
        raise BadInput(Problem(str(file), "isn't a picture", advice="take it out of the folder")) from error
    except (OSError, SyntaxError, Image.DecompressionBombError) as error:
        found = f"can't be decoded: {error}"
        raise BadInput(Problem(str(file), found, "a whole picture", advice="it may be truncated")) from error
