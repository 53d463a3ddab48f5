"""5000 MNIST digits (LeCun and Cortes), split by us: the last 100 images of every digit are held out.

The file is part of the distribution; ``data/NOTICE.md`` states origin, licence and how it was made. Its images are
sorted by digit, 500 each, so the split is balanced: 4000 images to train on, 1000 held out. This isn't MNIST's own
test set, so a loss here isn't comparable with published ones.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from pathlib import Path

import numpy as np

from ablate.errors import BadInput, Problem
from trainables.images import Images

FILE = Path(__file__).parent / "data" / "mnist_5k.npz"
SHA256 = "e613f869dab204a63ca426b433eb82b9fbeea13c331b12de387c1c5339df8224"
CLASSES = 10
PIXELS = 784
HELD_OUT_PER_CLASS = 100


def read(file: Path = FILE, sha256: str = SHA256) -> bytes:
    """Return the file's bytes.

    Raises:
        BadInput: if the file is missing or isn't the one this version was made with.
    """
    advice = "reinstall ablate-study, or rebuild the file with trainables/data/make_mnist_5k.py"
    try:
        data = file.read_bytes()
    except OSError as error:
        raise BadInput(
            Problem(str(file), f"cannot be read: {error.strerror}", "the MNIST digits that ship", advice=advice)
        ) from error
    found = hashlib.sha256(data).hexdigest()
    if found != sha256:
        raise BadInput(Problem(str(file), f"sha256 is {found} ({len(data)} bytes)", f"sha256 {sha256}", advice=advice))
    return data


def load(file: Path = FILE, sha256: str = SHA256) -> Images:
    """Return the digits and their split.

    Raises:
        BadInput: as ``read``; also if the file's bytes are the expected ones and still hold no digits.
    """
    data = read(file, sha256)
    try:
        with np.load(io.BytesIO(data)) as archive:
            images, labels = archive["images"], archive["labels"].astype(np.int64)
    except (ValueError, KeyError, zipfile.BadZipFile) as error:
        raise BadInput(
            Problem(str(file), f"isn't the expected archive: {error}", "an .npz of images, labels")
        ) from error
    held_out = np.concatenate([np.flatnonzero(labels == digit)[-HELD_OUT_PER_CLASS:] for digit in range(CLASSES)])
    train = np.setdiff1d(np.arange(len(labels)), held_out)
    return Images(images.reshape(len(images), -1), labels, train.astype(np.int64), held_out.astype(np.int64))
