"""Which images a GAN learns, by its settings ``data``, ``path`` and ``side``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from ablate.errors import BadInput, Problem
from trainables import cifar10, mnist, mnist_idx, photo_patches
from trainables.image_folder import ImageFolder
from trainables.images import Index
from trainables.settings import at_least, one_of
from trainables.sources import check_path

DATA = ("mnist", "mnist-idx", "cifar10", "photographs", "folder")
ON_DISK = ("mnist-idx", "cifar10", "folder")
ANY_SIDE = ("photographs", "folder")
SIDE = 32
"""Pixels of a patch or of a folder's picture if nothing is said; CIFAR-10's own."""


class Pictures(Protocol):
    """Images in memory or on disk, and their split; see ``Images`` and ``ImageFolder``."""

    @property
    def train(self) -> Index:
        """Rows to train on."""

    @property
    def held_out(self) -> Index:
        """The other rows."""

    def floats(self, rows: Index) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        """Return float32 (len(rows), P) in [0, 1]."""

    def digest(self) -> str:
        """Return a hash of the data set."""


@dataclass(frozen=True)
class GanData:
    """A data set, checked.

    Attributes:
        owner: the trainable's name, for messages.
        data: mnist (5000 digits that ship), mnist-idx (MNIST's own files), cifar10, photographs (patches of them) or
            folder (pictures of your own).
        path: of the folder or archive; mnist-idx, cifar10 and folder only.
        side: of a picture in pixels, a multiple of 4; photographs and folder only.
    """

    owner: str
    data: str
    path: str
    side: int

    def __post_init__(self) -> None:
        """Check.

        Raises:
            BadInput: if a setting is out of range, or a path is missing or not used.
        """
        one_of(f"{self.owner}.data", self.data, DATA)
        check_path(self.owner, "data", self.data, self.path, ON_DISK)
        where = f"{self.owner}.side"
        if at_least(where, self.side, 4) % 4:
            raise BadInput(Problem(where, f"is {self.side}", "a multiple of 4, since two layers halve it twice"))
        if self.side != SIDE and self.data not in ANY_SIDE:
            found = f"is {self.side}, but data: {self.data} has a size of its own"
            raise BadInput(Problem(where, found, advice=f"remove it, or write data: {' or '.join(ANY_SIDE)}"))

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of an image."""
        match self.data:
            case "mnist" | "mnist-idx":
                return 1, 28, 28
            case "cifar10":
                return 3, 32, 32
            case _:
                return 3, self.side, self.side

    @cached_property
    def pictures(self) -> Pictures:
        """The images, read when first asked for; a folder's one by one.

        Raises:
            BadInput: if a file is missing, damaged or another one.
        """
        match self.data:
            case "mnist":
                return mnist.load()
            case "mnist-idx":
                return mnist_idx.load(self.path)
            case "cifar10":
                return cifar10.load(self.path)
            case "photographs":
                return photo_patches.load(self.side)
            case _:
                return ImageFolder(self.path, self.side)
