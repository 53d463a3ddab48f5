"""The objects below one URI: listed, read, written whole, deleted. Names are relative, with slashes."""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from ablate.errors import Problem, StoreError
from ablate.remote.filesystem import connect, request

_CHUNK = 8 * 2**20
_STORES_OF_OBJECTS = {"s3", "gcs", "abfs"}
"""There a write appears whole when it ends, and folders need not be made; elsewhere a file is written aside first."""


class Objects:
    """What lies below ``uri``.

    Raises:
        BadInput, StoreError: as ``connect``.
    """

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._system, self._base = connect(uri)
        self._atomic = self._system.type_name in _STORES_OF_OBJECTS

    def check_usable(self) -> None:
        """Write, read and delete an object: credentials, bucket, endpoint and rights are good.

        Raises:
            StoreError: if any of it is refused, or nobody answers.
        """
        if not self._atomic and self._system.type_name == "local" and not Path(self._base).parent.parent.is_dir():
            where = str(Path(self._base).parent)
            raise StoreError(Problem(where, "is missing", advice="is the shared disk mounted? else make the folder"))
        self.modified("lease.json")  # a server that is silent is told by one read sooner than by a write
        name, content = f"nonce-{uuid.uuid4().hex}", uuid.uuid4().bytes
        self.write(name, content)
        try:
            if (found := self.read(name)) != content:
                what = "nothing" if found is None else "something else"
                raise StoreError(Problem(self.uri, f"what was written there was read back as {what}"))
        finally:
            with suppress(StoreError):
                self.delete(name)

    def names(self, folder: str = "") -> dict[str, int]:
        """Return all objects in a folder and below, with their sizes.

        Raises:
            StoreError: if the store refuses.
        """
        from pyarrow.fs import FileSelector, FileType

        path = self._path(folder) if folder else self._base
        with request(self.uri):
            found = self._system.get_file_info(FileSelector(path, recursive=True, allow_not_found=True))
        skip = len(self._base) + 1
        return {one.path[skip:]: one.size for one in found if one.type == FileType.File}

    def folders(self) -> list[str]:
        """Return the names of the folders directly here.

        Raises:
            StoreError: if the store refuses.
        """
        from pyarrow.fs import FileSelector, FileType

        with request(self.uri):
            found = self._system.get_file_info(FileSelector(self._base, allow_not_found=True))
        return sorted(one.base_name for one in found if one.type == FileType.Directory)

    def modified(self, name: str) -> float | None:
        """Return when an object was written, in seconds by the store's own clock; None if it is not there.

        Raises:
            StoreError: if the store refuses.
        """
        with request(self.uri):
            found = self._system.get_file_info(self._path(name))
        return found.mtime.timestamp() if found.is_file else None

    def size(self, name: str) -> int | None:
        """Return how many bytes an object holds; None if it is not there.

        Raises:
            StoreError: if the store refuses.
        """
        with request(self.uri):
            found = self._system.get_file_info(self._path(name))
        return int(found.size) if found.is_file else None

    def now(self) -> float:
        """Return the time by the store's own clock, found by writing an object.

        Raises:
            StoreError: if the store refuses.
        """
        name = f"nonce-{uuid.uuid4().hex}"
        self.write(name, b"now")
        seen = self.modified(name)
        self.delete(name)
        return time.time() if seen is None else seen

    def read(self, name: str) -> bytes | None:
        """Return an object's content; None if it is not there.

        Raises:
            StoreError: if the store refuses.
        """
        try:
            with request(self.uri), self._system.open_input_stream(self._path(name)) as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            return None

    def read_head(self, name: str, size: int) -> bytes:
        """Return an object's first ``size`` bytes, fewer if it is shorter; empty if it is not there.

        Raises:
            StoreError: if the store refuses.
        """
        try:
            with request(self.uri), self._system.open_input_file(self._path(name)) as file:
                return bytes(file.read(size))
        except FileNotFoundError:
            return b""

    def fetch(self, name: str, path: Path) -> None:
        """Copy an object to a file, whole or not at all.

        Raises:
            FileNotFoundError: if it is not there.
            StoreError: if the store or the disk refuses.
        """
        self.fetch_joined([name], path)

    def fetch_joined(self, names: list[str], path: Path) -> None:
        """Copy objects, one after the other, to one file, whole or not at all.

        Raises:
            FileNotFoundError: if one is not there.
            StoreError: if the store or the disk refuses.
        """
        aside = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident()}.tmp")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with aside.open("wb") as file:
                for name in names:
                    for chunk in self._chunks(name):
                        file.write(chunk)
            aside.replace(path)
        except FileNotFoundError:
            raise
        except OSError as error:
            advice = "free some space or mend the disk, then run the same command again"
            raise StoreError(Problem(str(path), f"cannot be written ({error.strerror})", advice=advice)) from error
        finally:
            aside.unlink(missing_ok=True)

    def _chunks(self, name: str) -> Iterator[bytes]:
        with request(self.uri):
            stream = self._system.open_input_stream(self._path(name))
        with stream:
            while True:
                with request(self.uri):
                    chunk = bytes(stream.read(_CHUNK))
                if not chunk:
                    return
                yield chunk

    def write(self, name: str, content: bytes) -> None:
        """Write an object whole.

        Raises:
            StoreError: if the store refuses; an object of this name is as before then.
        """
        self._write(name, [content])

    def send(self, name: str, path: Path) -> int:
        """Copy a file that nobody changes to an object and return its size.

        Raises:
            FileNotFoundError: if the file is gone.
            StoreError: if the store refuses.
        """
        with path.open("rb") as file:
            return self.send_open(name, file)

    def send_open(self, name: str, file: BinaryIO) -> int:
        """Copy an open file, which nobody changes, from its start to an object and return its size.

        Raises:
            StoreError: if the store refuses.
        """
        size = os.fstat(file.fileno()).st_size
        file.seek(0)
        self._write(name, iter(lambda: file.read(_CHUNK), b"") if size else [b""])
        found = self.size(name)
        if found != size:  # pyarrow ends an upload that was broken off as if it were complete
            self.delete(name)
            raise StoreError(Problem(f"{self.uri}: {name}", f"holds {found} of {size} bytes after its upload"))
        return size

    def delete(self, name: str) -> None:
        """Delete an object, if it is there.

        Raises:
            StoreError: if the store refuses.
        """
        with suppress(FileNotFoundError), request(self.uri):
            self._system.delete_file(self._path(name))

    def _write(self, name: str, chunks: Iterable[bytes]) -> None:
        path = self._path(name)
        with request(self.uri):
            if self._atomic:
                with self._system.open_output_stream(path) as stream:
                    for chunk in chunks:
                        stream.write(chunk)
                return
            self._system.create_dir(str(PurePosixPath(path).parent), recursive=True)
            aside = f"{path}.{uuid.uuid4().hex}.tmp"
            with self._system.open_output_stream(aside) as stream:
                for chunk in chunks:
                    stream.write(chunk)
            self._system.move(aside, path)

    def _path(self, name: str) -> str:
        return f"{self._base}/{name}"
