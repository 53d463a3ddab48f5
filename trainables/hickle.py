"""Values in hickle files (HDF5), read with h5py; hickle itself isn't needed, and nothing in a file is unpickled.

Layouts, by version of hickle: 1 has the value at ``/data``, 2 and 3 at ``/data_0``, 4 and 5 at ``/data``. A list of
texts is one data set of strings up to version 3; later it is a group of items ``data0``, ``data1``, ..., each a
string's bytes, or from version 5 on, for an object that stands in the list twice, a reference to the first one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ablate.errors import BadInput, Problem

if TYPE_CHECKING:
    import h5py

INSTALL = "pip install 'ablate-study[kitti]'"


def existing(file: Path) -> Path:
    """Return ``file``.

    Raises:
        BadInput: if there is none.
    """
    if not file.is_file():
        raise BadInput(Problem(str(file), "no such file", "a file that hickle wrote"))
    return file


@contextmanager
def value(file: Path) -> Iterator[h5py.Dataset | h5py.Group]:
    """Open ``file`` and yield what it holds.

    Raises:
        BadInput: if h5py isn't installed, or the file is missing, damaged or not from hickle.
    """
    try:
        import h5py
    except ImportError as error:
        raise BadInput(Problem("h5py", "isn't installed; it reads .hkl files", advice=INSTALL)) from error
    existing(file)
    try:
        with h5py.File(file, "r") as content:
            found = content.get("data", content.get("data_0"))
            if found is None:
                names = ", ".join(content) or "nothing"
                raise BadInput(Problem(str(file), f"holds {names}", "data or data_0, as hickle writes"))
            yield found
    except OSError as error:
        advice = "it may be truncated, or no HDF5 file"
        raise BadInput(Problem(str(file), f"can't be read: {error}", "a whole .hkl file", advice=advice)) from error


def texts(file: Path) -> list[str]:
    """Return the list of texts that ``file`` holds.

    Raises:
        BadInput: as ``value``; also if it holds something else.
    """
    import h5py

    with value(file) as found:
        if isinstance(found, h5py.Dataset):
            items = found[()] if found.ndim == 1 else None
        else:
            items = [_item(found, name) for name in sorted(found, key=_position)]
        kinds = (bytes, str)
        if items is None or not all(isinstance(item, kinds) for item in items):
            raise BadInput(Problem(str(file), "holds no list of texts", "one source per frame, as text"))
        return [item.decode() if isinstance(item, bytes) else str(item) for item in items]


def _position(name: str) -> int:
    digits = name.removeprefix("data").removeprefix("_")
    return int(digits) if digits.isdigit() else -1


def _item(group: h5py.Group, name: str) -> Any:
    """Return an item of a list: bytes, a text, or whatever else it is."""
    import h5py

    item = group[name]
    if isinstance(item, h5py.Dataset) and item.shape == () and isinstance(item[()], h5py.Reference):
        item = group[item[()]]
    if not isinstance(item, h5py.Dataset):
        return None
    content = item[()]
    if isinstance(content, np.ndarray) and content.dtype.itemsize == 1 and content.dtype.kind in "Su":
        return content.tobytes()  # one byte an element
    return content.item() if isinstance(content, np.ndarray) and content.size == 1 else content
