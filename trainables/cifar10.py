"""CIFAR-10 (Krizhevsky 2009) as published for Python: pickled batches, checked before a byte of them is unpickled.

From ``cifar-10-python.tar.gz`` or the folder it was unpacked to. A pickle can run any code, so the archive's md5, or
that of each batch, must be the published one, and even then only the few names are resolved that a NumPy array needs.
(md5 tells damage and mix-ups; against an attacker, who can forge it, the second measure stands.) 50,000 images to train
on, 10,000 held out, 32x32, stored as 1024 red, then green, then blue values. It doesn't ship: its licence is unclear.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ablate.errors import BadInput, Problem
from trainables.images import Images
from trainables.user_path import user_path

ARCHIVE = "cifar-10-python.tar.gz"
FOLDER = "cifar-10-batches-py"
ARCHIVE_MD5 = "c58f30108f718f92721af3b95e74349a"
BATCH_MD5 = {
    "data_batch_1": "c99cafc152244af753f735de768cd75f",
    "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "634d18415352ddfa80567beed471001a",
    "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    "test_batch": "40351d587109b95175f43aff81a1287e",
}
HELD_OUT = "test_batch"
PIXELS = 3072
CLASSES = 10
ARRAYS = {
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
}


def load(path: str, archive_md5: str = ARCHIVE_MD5, batch_md5: Mapping[str, str] = BATCH_MD5) -> Images:
    """Return the images, the training batches first, and their split.

    Args:
        path: of the archive, of the folder that holds it, or of the batches' folder.
        archive_md5: what the archive's md5 must be.
        batch_md5: file name -> what its md5 must be, if there is no archive.

    Raises:
        BadInput: if nothing is there, an md5 is another, or a batch isn't what it should be.
    """
    where = user_path(path)
    archive = where if where.is_file() else where / ARCHIVE
    if archive.is_file():
        contents = _from_archive(archive, archive_md5, list(batch_md5))
    else:
        contents = _from_folder(where, batch_md5)
    data, labels, train = [], [], 0
    for name, content in contents.items():
        pixels, numbers = _batch(f"{where}: {name}", content)
        data.append(pixels)
        labels.append(numbers)
        train += len(numbers) if name != HELD_OUT else 0
    rows = np.arange(sum(map(len, labels)), dtype=np.int64)
    return Images(np.concatenate(data), np.concatenate(labels), rows[:train], rows[train:])


def _from_archive(archive: Path, md5: str, names: list[str]) -> dict[str, bytes]:
    packed = archive.read_bytes()
    _check(str(archive), packed, md5)
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        members = {name: tar.extractfile(f"{FOLDER}/{name}") for name in names}
        return {name: member.read() for name, member in members.items() if member is not None}


def _from_folder(where: Path, md5s: Mapping[str, str]) -> dict[str, bytes]:
    folder = where / FOLDER if (where / FOLDER).is_dir() else where
    contents = {}
    for name, md5 in md5s.items():
        file = folder / name
        if not file.is_file():
            allowed = f"{ARCHIVE}, or the folder {FOLDER} unpacked from it"
            raise BadInput(Problem(str(file), "no such file", allowed))
        contents[name] = file.read_bytes()
        _check(str(file), contents[name], md5)
    return contents


def _check(where: str, content: bytes, md5: str) -> None:
    found = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if found != md5:
        advice = "it wasn't unpickled: it is damaged or another file; get it again"
        raise BadInput(Problem(where, f"md5 is {found} ({len(content)} bytes)", f"md5 {md5}", advice=advice))


class _ArraysOnly(pickle.Unpickler):
    """Resolves the names that a pickled NumPy array needs, and no other."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in ARRAYS:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, and a batch needs NumPy arrays only")
        if name == "_reconstruct":
            return _reconstruct
        return getattr(np, name)


def _reconstruct(kind: type, shape: tuple[int, ...], code: bytes) -> np.ndarray[Any, Any]:
    """Return the empty array that a pickle then fills (the module that NumPy names for this depends on its version)."""
    return np.ndarray.__new__(kind, shape, np.dtype(code))


def _batch(where: str, content: bytes) -> tuple[np.ndarray[Any, np.dtype[np.uint8]], np.ndarray[Any, Any]]:
    """Return pixels uint8 (n, 3072) and labels int64 (n,) of one batch."""
    try:
        batch = _ArraysOnly(io.BytesIO(content), encoding="bytes").load()
        pixels, labels = batch[b"data"], np.asarray(batch[b"labels"], dtype=np.int64)
    except (pickle.UnpicklingError, EOFError, ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        raise BadInput(Problem(where, f"isn't a batch of CIFAR-10: {error!r}", "data and labels, pickled")) from error
    shape = getattr(pixels, "shape", None)
    if shape != (len(labels), PIXELS) or pixels.dtype != np.uint8:
        found = f"its data are {getattr(pixels, 'dtype', type(pixels).__name__)} {shape}, with {len(labels)} labels"
        raise BadInput(Problem(where, found, f"uint8 (n, {PIXELS}) and n labels"))
    if labels.min() < 0 or labels.max() >= CLASSES:
        raise BadInput(Problem(where, f"holds labels from {labels.min()} to {labels.max()}", f"0 to {CLASSES - 1}"))
    return pixels, labels
