"""One attempt's batches on disk: a record per batch, each in one ``write`` and under its own checksum.

A record that ``write`` took is in the page cache and survives the death of any process on the node. Layout, all
little-endian: ``ABLATEJ1``, a block that names the attempt (written when the file is made), a block that names the
metrics (written with the first batch), then rows of one size. A block is length and CRC-32, then JSON; a row ends
with the CRC-32 of what precedes it. Floats keep every bit, NaN payloads too.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ablate.errors import BadInput, Problem, StoreError
from ablate.record.disk import append_whole, store_error, store_io
from ablate.record.flock import lock, release

_MAGIC = b"ABLATEJ1"
_BLOCK = struct.Struct("<II")
_FIXED = "<qddBQQ"
_FIELDS: list[tuple[str, str]] = [
    ("batch_index", "<i8"),
    ("loss", "<f8"),
    ("duration_s", "<f8"),
    ("flags", "u1"),
    ("order_hash", "<u8"),
    ("content_hash", "<u8"),
]
HAS_ORDER, HAS_CONTENT = 1, 2
HEAD_BYTES = 65536
"""What names the attempt and its metrics fits into so much."""


class JournalWriter:
    """Appends one attempt's rows; holds a lock on the file for as long as the process lives."""

    def __init__(self, path: Path, identity: Mapping[str, Any]) -> None:
        """Make the file and write who it belongs to.

        Raises:
            StoreError: if the file is there already, or the disk is full, read-only or fails.
        """
        self.path = path
        self._where = f"trial {identity.get('trial_id')}, attempt {identity.get('attempt')}"
        self._names: tuple[str, ...] | None = None
        self._pack = struct.Struct(_FIXED).pack
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        try:
            self._fd = os.open(path, flags, 0o644)
        except FileExistsError as error:
            raise StoreError(
                Problem(str(path), "this attempt was begun already", advice="resume by `ablate launch` instead")
            ) from error
        except OSError as error:
            raise store_error(error, path) from error
        lock(self._fd)  # nobody else has it longer than it takes to ask
        append_whole(self._fd, _MAGIC + _block({**identity, "pid": os.getpid(), "host": socket.gethostname()}), path)

    def append(
        self,
        batch_index: int,
        loss: float,
        duration_s: float,
        metrics: Mapping[str, float],
        order_hash: int | None,
        content_hash: int | None,
    ) -> None:
        """Write one row. It is acknowledged when this returns.

        Raises:
            BadInput: if the metrics are not those of the first batch, or a value is no number.
            StoreError: if the disk is full or fails; the row is then not in the file, and may be tried again.
        """
        names, pack, head = self._names, self._pack, b""
        if names is None:
            names = tuple(metrics)
            pack, head = struct.Struct(f"{_FIXED}{len(names)}d").pack, _block({"metrics": names})
        elif len(metrics) != len(names):
            raise self._wrong_metrics(batch_index, metrics)
        flags = (order_hash is not None) | (content_hash is not None) << 1
        try:
            values = map(metrics.__getitem__, names)
            row = pack(batch_index, loss, duration_s, flags, order_hash or 0, content_hash or 0, *values)
        except KeyError:
            raise self._wrong_metrics(batch_index, metrics) from None
        except (struct.error, TypeError, ValueError) as error:
            found = f"not a number among loss={loss!r}, metrics={dict(metrics)!r}"
            raise BadInput(Problem(f"{self._where}, batch {batch_index}", found, advice=str(error))) from error
        data = head + row + zlib.crc32(row).to_bytes(4, "little")
        try:
            written = os.write(self._fd, data)
        except OSError as error:
            raise store_error(error, self.path) from error
        if written != len(data):
            self._finish_short_write(data, written)
        if head:
            self._names, self._pack = names, pack

    def check_own(self) -> None:
        """Check that the file is still the attempt's journal, and not one whose name was given to a copy.

        Raises:
            StoreError: if it is not: the launch took this process for lost and goes on with another attempt.
        """
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(self._fd), os.stat(self.path)):
                return
        found = "the launch has gone on without this attempt, whose node it had lost; nothing of it counts from here on"
        raise StoreError(Problem(self._where, found))

    def sync(self) -> None:
        """Make all rows durable against the loss of power too.

        Raises:
            StoreError: if the disk fails.
        """
        with store_io(self.path):
            os.fsync(self._fd)

    def close(self) -> None:
        """Close the file and give its lock back."""
        if self._fd >= 0:
            release(self._fd)
            self._fd = -1

    def _finish_short_write(self, data: bytes, written: int) -> None:
        try:
            append_whole(self._fd, data[written:], self.path)
        except StoreError:
            os.ftruncate(self._fd, os.fstat(self._fd).st_size - written)
            raise

    def _wrong_metrics(self, batch_index: int, metrics: Mapping[str, float]) -> BadInput:
        names = self._names or ()
        found = f"metrics {sorted(metrics)}, but batch 0 had {sorted(names)}"
        advice = "return the same metrics from every batch (float('nan') where one has no value)"
        return BadInput(Problem(f"{self._where}, batch {batch_index}", found, advice=advice))


@dataclass(frozen=True)
class Journal:
    """What one attempt left.

    Attributes:
        identity: trial_id, attempt, arm, block, factors, pid, host; empty if the process died before it wrote them.
        metrics: names of the metrics, in the rows' order.
        rows: structured array, shape (batches,); ``flags`` says which of the two hashes are present.
        dropped_bytes: length of an unacknowledged tail that was left out.
    """

    identity: dict[str, Any]
    metrics: tuple[str, ...]
    rows: np.ndarray[Any, Any]
    dropped_bytes: int

    @staticmethod
    def empty() -> Journal:
        """Return what an attempt left that wrote nothing."""
        return Journal({}, (), np.empty(0, dtype=np.dtype([*_FIELDS, ("crc", "<u4")])), 0)


def read_journal(path: Path) -> Journal:
    """Read an attempt's rows, leaving out a tail that was never acknowledged.

    Raises:
        StoreError: if a row is corrupt although a later one is whole, or the file cannot be read.
    """
    with store_io(path):
        data = path.read_bytes()
    identity, at = _read_head(data, path)
    named, start = _read_block(data, at, path) if identity is not None else (None, at)
    names: tuple[str, ...] = tuple(named["metrics"]) if named is not None else ()
    size = struct.calcsize(f"{_FIXED}{len(names)}d") + 4
    count = (len(data) - start) // size if named is not None else 0
    view = memoryview(data)
    whole = [_is_whole(view[start + k * size : start + (k + 1) * size]) for k in range(count)]
    kept = max((k + 1 for k in range(count) if whole[k]), default=0)
    if not all(whole[:kept]):
        raise _corrupt(path, whole.index(False))
    fields = [*_FIELDS, *((f"metric.{name}", "<f8") for name in names), ("crc", "<u4")]
    dtype = np.dtype(fields)
    rows = np.frombuffer(data, dtype, count=kept, offset=start) if kept else np.empty(0, dtype)
    misplaced = np.flatnonzero(rows["batch_index"] != np.arange(kept))
    if misplaced.size:
        raise _corrupt(path, int(misplaced[0]))
    return Journal(identity or {}, names, rows, len(data) - start - kept * size)


def read_identity(path: Path) -> dict[str, Any]:
    """Return who a journal belongs to, whatever its rows look like; empty if that was never written.

    Raises:
        StoreError: if the file cannot be read.
    """
    with store_io(path):
        data = path.read_bytes()
    return _read_head(data, path)[0] or {}


def rows_written(path: Path) -> int | None:
    """Return how many whole rows a journal holds by its size, reading its head only; None if there is no file yet."""
    try:
        with path.open("rb") as file:
            return rows_in(file.read(HEAD_BYTES), os.fstat(file.fileno()).st_size, path)
    except FileNotFoundError:
        return None


def rows_in(data: bytes, size: int, path: Path) -> int:
    """Return how many whole rows a journal holds.

    Args:
        data: its first ``HEAD_BYTES``, or all of it.
        size: its size in bytes.
        path: names it in messages.
    """
    identity, at = _read_head(data, path)
    named, start = _read_block(data, at, path) if identity is not None else (None, at)
    if named is None:
        return 0
    return (size - start) // (struct.calcsize(f"{_FIXED}{len(named['metrics'])}d") + 4)


def _block(content: Mapping[str, Any]) -> bytes:
    text = json.dumps(content).encode()
    return _BLOCK.pack(len(text), zlib.crc32(text)) + text


def _read_head(data: bytes, path: Path) -> tuple[dict[str, Any] | None, int]:
    if not data.startswith(_MAGIC):
        if _MAGIC.startswith(data[: len(_MAGIC)].rstrip(b"\0")):
            return None, 0
        raise StoreError(Problem(str(path), "is no journal", advice="delete it: the trial runs again"))
    return _read_block(data, len(_MAGIC), path)


def _read_block(data: bytes, at: int, path: Path) -> tuple[dict[str, Any] | None, int]:
    """Return a block and where it ends; None and where it would begin if it was never wholly written."""
    if len(data) < at + _BLOCK.size:
        return None, at
    length, crc = _BLOCK.unpack_from(data, at)
    text = data[at + _BLOCK.size : at + _BLOCK.size + length]
    if not text or len(text) < length:
        return None, at
    if zlib.crc32(text) != crc:
        raise _corrupt(path, 0)
    content: dict[str, Any] = json.loads(text)
    return content, at + _BLOCK.size + length


def _is_whole(row: memoryview) -> bool:
    return zlib.crc32(row[:-4]) == int.from_bytes(row[-4:], "little")


def _corrupt(path: Path, row: int) -> StoreError:
    advice = "the disk returned other bytes than were written: check it; `ablate launch` runs this trial again"
    return StoreError(Problem(where=f"{path}: row {row}", found="the row is corrupt", advice=advice))
