"""Reads the file that wandb writes offline: LevelDB's log format around protobuf records.

Layout: ``:W&B``, two bytes of magic, one of version; then blocks of 32 KiB, the first shortened by that head. A block
holds chunks: CRC-32 (4 bytes), length (2), kind (1: whole, 2: first, 3: middle, 4: last), data; fewer than 7 bytes left
in a block are padding.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_HEAD, _BLOCK = b":W&B", 32 * 1024
_CHUNK = struct.Struct("<IHB")
_WHOLE, _LAST = 1, 4


@dataclass
class OfflineRun:
    """What one file holds.

    Attributes:
        config: the run's configuration, values as JSON gives them.
        history: one dict a step, name -> JSON text of the value.
        ended: whether the run's end is in the file; wandb still writes for a moment after ``finish`` returned.
    """

    config: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, str]] = field(default_factory=list)
    ended: bool = False


def read_offline_run(path: Path) -> OfflineRun:
    """Read a ``run-*.wandb`` file.

    Raises:
        ValueError: it is no such file.
    """
    from wandb.proto.wandb_internal_pb2 import Record

    run = OfflineRun()
    for data in _records(path.read_bytes(), path):
        record = Record()
        record.ParseFromString(data)
        kind = record.WhichOneof("record_type")
        if kind == "run":
            run.config |= {item.key: json.loads(item.value_json) for item in record.run.config.update}
        elif kind == "history":
            run.history.append({_name(item): item.value_json for item in record.history.item})
        run.ended |= kind == "exit"
    return run


def _name(item: Any) -> str:
    return item.key or ".".join(item.nested_key)


def _records(data: bytes, path: Path) -> Iterator[bytes]:
    if not _HEAD.startswith(data[: len(_HEAD)]):  # a file just made may be shorter
        raise ValueError(f"{path} is no file of wandb's offline format")
    at, parts = len(_HEAD) + 3, b""
    while at < len(data):
        left = _BLOCK - at % _BLOCK
        if left < _CHUNK.size:
            at += left
            continue
        if at + _CHUNK.size > len(data):
            return
        _, size, kind = _CHUNK.unpack_from(data, at)
        if not kind or at + _CHUNK.size + size > len(data):
            return
        parts += data[at + _CHUNK.size : at + _CHUNK.size + size]
        at += _CHUNK.size + size
        if kind in (_WHOLE, _LAST):
            yield parts
            parts = b""
