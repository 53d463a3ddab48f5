"""Writing Parquet: encodings that suit training logs, aside and then renamed.

Losses and durations are byte-stream split, then zstd: a float32 loss kept as float64 has zero bytes that vanish, and
sign and exponent bytes hardly change. Batch indices are delta coded; text and levels, constant within a trial, are
dictionary coded.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ablate.errors import Problem, StoreError
from ablate.record.disk import move_into_place, store_io
from ablate.record.paths import temporary


def write_parquet(path: Path, schema: Any, groups: Iterable[Any], metadata: Mapping[bytes, bytes]) -> None:
    """Write row groups to ``path``, whole or not at all, durably.

    Args:
        path: final name.
        schema: Arrow schema of every group.
        groups: tables; each becomes one row group.
        metadata: goes into the file's key-value metadata.

    Raises:
        StoreError: if the disk is full, read-only or fails.
    """
    aside = temporary(path)
    split = [f.name for f in schema if pa.types.is_floating(f.type)]
    delta = [f.name for f in schema if f.name == "batch_index"]
    encoding = {**dict.fromkeys(split, "BYTE_STREAM_SPLIT"), **dict.fromkeys(delta, "DELTA_BINARY_PACKED")}
    with store_io(path):
        try:
            with (
                aside.open("wb") as file,
                pq.ParquetWriter(
                    file,
                    schema,
                    compression="zstd",
                    use_dictionary=[f.name for f in schema if f.name not in encoding and not pa.types.is_list(f.type)],
                    column_encoding=encoding or None,
                ) as writer,
            ):
                for group in groups:
                    writer.write_table(group, row_group_size=max(group.num_rows, 1))
                writer.add_key_value_metadata(dict(metadata))
            with aside.open("rb") as written:
                os.fsync(written.fileno())
            move_into_place(aside, path)
        except OSError:
            aside.unlink(missing_ok=True)
            raise


def read_head(path: Path) -> tuple[Any, dict[bytes, bytes]]:
    """Return a file's schema and its key-value metadata without reading its rows.

    Raises:
        FileNotFoundError: if it is not there.
        StoreError: if it is no Parquet file or cannot be read.
    """
    with damage(path):
        footer = pq.read_metadata(path)
        return footer.schema.to_arrow_schema().remove_metadata(), dict(footer.metadata or {})


@contextmanager
def damage(path: Path, kinds: tuple[type[Exception], ...] = (OSError, pa.ArrowException)) -> Iterator[None]:
    """Turn what pyarrow raises about a broken file into an error that names it.

    Args:
        path: the file, or the folder of a data set.
        kinds: what to take for a sign of a broken file.

    Raises:
        FileNotFoundError: as it is: a part may be superseded and unlinked at any time.
        StoreError: for every other error of these kinds.
    """
    try:
        yield
    except FileNotFoundError:
        raise
    except kinds as error:
        found = f"cannot be read as Parquet ({str(error).splitlines()[0]})"
        advice = "restore it from a copy, or delete it and run `ablate launch` to record its trials again"
        raise StoreError(Problem(str(path), found, advice=advice)) from error
