"""MNIST as LeCun, Cortes and Burges publish it: four idx files, 60,000 images to train on, 10,000 held out.

An idx file is big-endian: 4 bytes 0, 0, 8 (unsigned byte), number of axes; 4 bytes per axis; then the data. So images
begin with the number 2051 and labels with 2049. Files may be gzipped. Fashion-MNIST has the same names and format.
"""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from ablate.errors import BadInput, Problem
from trainables.images import Images
from trainables.user_path import user_folder

COUNTS = {"train": 60_000, "t10k": 10_000}
KINDS = {"images": (2051, (28, 28)), "labels": (2049, ())}
CLASSES = 10


def load(path: str, counts: dict[str, int] | None = None) -> Images:
    """Return the images, those of the training files first, and their split.

    Args:
        path: of the folder that holds the four files.
        counts: images in each split, MNIST's by default.

    Raises:
        BadInput: if the folder or a file is missing, can't be unpacked, has another magic number or shape, or is
            shorter or longer than it says; or if a label is no digit.
    """
    folder = user_folder(path, "the folder of MNIST's idx files")
    counts = counts or COUNTS
    images = [_array(folder, split, "images", count) for split, count in counts.items()]
    labels = [_array(folder, split, "labels", count) for split, count in counts.items()]
    train, held_out = counts.values()
    return Images(
        np.concatenate(images).reshape(train + held_out, -1),
        np.concatenate(labels).astype(np.int64),
        np.arange(train, dtype=np.int64),
        np.arange(train, train + held_out, dtype=np.int64),
    )


def _array(folder: Path, split: str, kind: str, count: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    magic, rest = KINDS[kind]
    file = _file(folder, split, kind, axes=1 + len(rest))
    content = _content(file)
    shape = (count, *rest)
    head = np.frombuffer(content[: 4 * (1 + len(shape))], dtype=">u4")
    if len(head) < 1 + len(shape) or head[0] != magic:
        found = f"begins with {int(head[0])}" if len(head) else "is empty"
        raise BadInput(Problem(str(file), found, f"{magic}, the magic number of idx {kind}"))
    if tuple(head[1:]) != shape:
        raise BadInput(Problem(str(file), f"says its shape is {_text(head[1:])}", _text(shape)))
    data = np.frombuffer(content, dtype=np.uint8, offset=4 * len(head))
    if data.size != np.prod(shape):
        found = f"holds {data.size} bytes of {kind}, and its head says {np.prod(shape)}"
        raise BadInput(Problem(str(file), found, advice="it is truncated or damaged"))
    if kind == "labels" and data.max() >= CLASSES:
        raise BadInput(Problem(str(file), f"holds the label {data.max()}", "0 to 9"))
    return data.reshape(shape)


def _file(folder: Path, split: str, kind: str, axes: int) -> Path:
    names = [f"{split}-{kind}{mark}idx{axes}-ubyte{end}" for mark in "-." for end in ("", ".gz")]
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise BadInput(Problem(str(folder / names[0]), "no such file", f"it, or {names[1]}"))


def _content(file: Path) -> bytes:
    try:
        return gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        advice = "it may be truncated"
        raise BadInput(Problem(str(file), f"can't be read: {error}", "a whole file", advice=advice)) from error


def _text(shape: tuple[int, ...]) -> str:
    return "x".join(str(int(axis)) for axis in shape)
