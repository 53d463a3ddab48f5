"""A set of images and its split into those trained on and those held out."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

Index = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class Images:
    """Images in memory.

    Attributes:
        pixels: uint8 (N, P), an image a row.
        labels: int64 (N,).
        train: int64, rows to train on.
        held_out: int64, the other rows.
    """

    pixels: np.ndarray[Any, np.dtype[np.uint8]]
    labels: Index
    train: Index
    held_out: Index

    def floats(self, rows: Index) -> np.ndarray[Any, np.dtype[np.float32]]:
        """Return the images in ``rows`` as float32 (len(rows), P) in [0, 1], contiguous."""
        return self.pixels[rows].astype(np.float32) / np.float32(255)

    def digest(self) -> str:
        """Return a hash of the images, the labels and the split, 64 hex digits."""
        digest = hashlib.sha256()
        for array in (self.pixels, self.labels, self.train, self.held_out):
            digest.update(repr((array.shape, array.dtype.str)).encode())
            digest.update(np.ascontiguousarray(array))
        return digest.hexdigest()
