"""Writing to a disk that may be full, read-only or gone: whole or not at all, and an error that says what to do."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ablate.errors import Problem, StoreError
from ablate.record.paths import temporary

_FULL = {errno.ENOSPC, errno.EDQUOT}
_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}


def store_error(error: OSError, path: Path) -> StoreError:
    """Say what an operating system's error means for the store.

    Returns:
        The error to raise; its exit code is 6.
    """
    if error.errno in _FULL:
        found = f"store is full: {_free(path)} free there"
        advice = "free some space or move the store, then run the same command again: nothing recorded is lost"
    elif error.errno in _DENIED:
        found = f"cannot be written ({error.strerror})"
        advice = "choose a folder that you may write, or change this one's permissions"
    else:
        found = f"cannot be used ({error.strerror or error})"
        advice = "check that the disk is there and healthy, then run the same command again"
    return StoreError(Problem(where=str(path), found=found, advice=advice))


@contextmanager
def store_io(path: Path) -> Iterator[None]:
    """Turn an OSError inside the block into a StoreError that names ``path``.

    Raises:
        StoreError: whenever the operating system refused.
    """
    try:
        yield
    except OSError as error:
        raise store_error(error, path) from error


def append_whole(fd: int, data: bytes, path: Path) -> None:
    """Append ``data`` to a file opened with O_APPEND, whole or not at all.

    Raises:
        StoreError: if the disk is full or fails; the file then has the length it had before.
    """
    size = os.fstat(fd).st_size
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(fd, view) :]
    except OSError as error:
        os.ftruncate(fd, size)
        raise store_error(error, path) from error


def write_aside(path: Path, data: bytes) -> None:
    """Put ``data`` at ``path`` so that a reader, and a crash, sees the old content or the new, never a part.

    Raises:
        StoreError: if the disk is full, read-only or fails.
    """
    aside = temporary(path)
    with store_io(path):
        try:
            with aside.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            move_into_place(aside, path)
        except OSError:
            aside.unlink(missing_ok=True)
            raise


def move_into_place(aside: Path, path: Path) -> None:
    """Rename a finished file to its final name and make the rename durable."""
    os.replace(aside, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _free(path: Path) -> str:
    while not path.exists() and path != path.parent:
        path = path.parent
    free = shutil.disk_usage(path).free
    return f"{free / 2**20:.1f} MiB"
