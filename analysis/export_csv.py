"""``ablate export --to csv``: one CSV a data set and a sidecar, read back and compared before it counts."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from ablate.errors import BadInput, Problem, StoreError
from ablate.record.disk import store_io
from ablate.record.output_path import check_parent
from ablate.record.reader import Run
from ablate.record.schema import SCHEMA_VERSION
from analysis.bits import first_difference
from analysis.csv_table import read_table, write_table

SIDECAR = "schema.json"
READ_ME = (
    "One CSV for each data set of an ablate store. Floats are the shortest text that reads back to the same bits; NaN "
    "is nan, infinity inf. An empty field is a missing value, a quoted empty one an empty text. A list is JSON. "
    "nan_bits holds the bits of NaNs that carry a sign or a payload, by column and row (from 0)."
)


def export_csv(run: Run, folder: Path) -> dict[str, int]:
    """Write a run's data sets as CSV, all or nothing.

    Args:
        run: the store.
        folder: made here; must not be there yet.

    Returns:
        dict[str, int]: rows by data set.

    Raises:
        BadInput: the folder is there already.
        StoreError: the disk is full or fails, or what was read back differs from what was written.
    """
    tables = {
        "batches": run.batches(),
        "trials": run.trials(),
        "audits": run.audits(),
        "artifacts": run.artifacts(),
        "sketches": run.sketches(),
        "probes": run.probes(),
        "attempts": run.attempts(),
    }
    with fresh_folder(folder) as aside:
        sidecar: dict[str, Any] = {
            "format": "ablate csv 1",
            "about": READ_ME,
            "study": run.grid.study,
            "spec_hash": run.spec.hash,
            "schema_version": SCHEMA_VERSION,
            "data_sets": {name: write_table(table, aside / f"{name}.csv") for name, table in tables.items()},
        }
        (aside / SIDECAR).write_text(json.dumps(sidecar, indent=1) + "\n", encoding="utf-8")
        for path in (run.paths.spec_json, run.paths.grid_yaml):
            if path.exists():
                shutil.copyfile(path, aside / path.name)
        _copy_artifacts(run.paths.artifact_files, aside / run.paths.artifact_files.name)
        for name, table in tables.items():
            compare(table, read_csv_export(aside, name), str(folder / f"{name}.csv"))
    return {name: table.num_rows for name, table in tables.items()}


def read_csv_export(folder: Path, name: str) -> pa.Table:
    """Read one data set of an export back, every bit as it was in the store.

    Args:
        folder: the export.
        name: ``batches``, ``trials``, ``audits``, ``artifacts``, ``sketches``, ``probes`` or
            ``attempts``.
    """
    sidecar = json.loads((folder / SIDECAR).read_text(encoding="utf-8"))["data_sets"][name]
    return read_table(folder / sidecar["file"], sidecar)


def _copy_artifacts(source: Path, target: Path) -> None:
    """Copy the images and arrays that ``artifacts`` names, as they are: NumPy's npz, which any tool reads.

    Raises:
        StoreError: a copy differs from its original.
    """
    files = sorted(source.glob("*.npz")) if source.is_dir() else []
    if files:
        target.mkdir()
    for file in files:
        shutil.copyfile(file, target / file.name)
        if (target / file.name).read_bytes() != file.read_bytes():
            raise StoreError(Problem(str(file), "does not read back as it was written", advice="Is the disk healthy?"))


def compare(written: pa.Table, read: pa.Table, where: str) -> None:
    """Compare what was written with what was read back.

    Raises:
        StoreError: they differ in any bit.
    """
    if found := first_difference(written, read):
        advice = "The export was deleted. Is the disk healthy? If so, please report this as a fault of ablate."
        raise StoreError(Problem(where, f"does not read back as it was written: {found}", advice=advice))


def check_fresh(folder: Path) -> None:
    """Check that a folder can be made.

    Raises:
        BadInput: it is there already, or its parent is not, or cannot be written.
    """
    if folder.exists():
        raise BadInput(Problem(str(folder), "is there already", advice="Choose another --output, or delete it."))
    check_parent(folder, "--output")


@contextmanager
def fresh_folder(folder: Path) -> Iterator[Path]:
    """Give a folder to write into, which becomes ``folder`` when the block ends well and vanishes when not.

    Raises:
        BadInput: ``folder`` is there already, or its parent is not.
        StoreError: the disk is full, read-only or fails.
    """
    check_fresh(folder)
    aside = folder.with_name(f"{folder.name}.partial-{os.getpid()}")
    try:
        with store_io(folder):
            aside.mkdir()
            yield aside
            aside.rename(folder)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
