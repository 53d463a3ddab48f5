"""``ablate export --to wandb``: an offline wandb run for each trial, read back and compared before it counts.

wandb's numbers are JSON: floats keep their bits, NaN and infinity too; whole numbers beyond 2^53 would not, so hashes
are written as text, as are the bits of NaNs with a sign or a payload. ``audits`` and ``attempts`` have no counterpart
there and are left to ``--to csv``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ablate.errors import BadInput, Problem, StoreError
from ablate.record.reader import Run
from analysis.bits import odd_nans, with_bits
from analysis.export_csv import compare, fresh_folder
from analysis.wandb_file import OfflineRun, read_offline_run

NAN_BITS = ".nan_bits"
EXACT = 2**53
PATIENCE_S = 30.0
IDENTITY = ("trial_id", "arm", "block")


def export_wandb(run: Run, folder: Path) -> dict[str, int]:
    """Write a run's trials as offline wandb runs, all or nothing; `wandb sync` uploads them.

    Args:
        run: the store.
        folder: made here; must not be there yet.

    Returns:
        dict[str, int]: rows by data set.

    Raises:
        BadInput: wandb is not installed, or the folder is there already.
        StoreError: what was read back differs from what was written, or the disk is full or fails.
    """
    wandb = _wandb()
    trials = run.trials().to_pylist()
    rows = 0
    with fresh_folder(folder) as aside:
        for trial in trials:
            table = run.batches(filter=pc.field("trial_id") == trial["trial_id"])
            table = table.drop_columns([n for n in table.schema.names if n in IDENTITY or n.startswith("factor.")])
            config = {name: value for name, cell in trial.items() if (value := _json(cell)) is not None}
            path = _write(wandb, aside, run.grid.study, trial, config, table)
            _check(_when_ended(path), config, table, path)
            rows += table.num_rows
    return {"batches": rows, "trials": len(trials)}


def table_of(history: list[dict[str, str]], schema: Any) -> pa.Table:
    """Turn a run's history back into columns of ``batches``.

    Args:
        history: one dict a step, name -> JSON text.
        schema: the columns and their types.
    """
    columns = []
    for field in schema:
        texts = [row.get(field.name) for row in history]
        values = [None if text is None else _parsed(text, field.type) for text in texts]
        column = pa.array(values, pa.float64() if pa.types.is_floating(field.type) else field.type, from_pandas=False)
        bits = {at: int(row[field.name + NAN_BITS].strip('"'), 16) for at, row in enumerate(history)
                if field.name + NAN_BITS in row}  # fmt: skip
        columns.append(with_bits(column.cast(field.type), bits))
    return pa.table(columns, names=schema.names)


def _wandb() -> Any:
    try:
        import wandb
    except ImportError as error:
        advice = "Install it with pip install 'ablate-study[wandb]'; --to csv needs nothing."
        raise BadInput(Problem("--to wandb", "the package wandb is not installed", advice=advice)) from error
    return wandb


def _write(
    wandb: Any, folder: Path, study: str, trial: Mapping[str, Any], config: Mapping[str, Any], table: pa.Table
) -> Path:
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
    settings = wandb.Settings(
        mode="offline", silent=True, console="off", disable_git=True, save_code=False, x_disable_stats=True,
        x_disable_meta=True,
    )  # fmt: skip
    name = f"{trial['arm']}, block {trial['block']}"
    made = wandb.init(
        dir=str(folder), project=study, group=trial["arm"], name=name, id=trial["trial_id"], config=dict(config),
        settings=settings,
    )  # fmt: skip
    odd = {column: odd_nans(table[column].combine_chunks()) for column in table.schema.names}
    for at, row in enumerate(table.to_pylist()):
        values = {name: _json(value, hashed=name.endswith("_hash")) for name, value in row.items() if value is not None}
        values |= {name + NAN_BITS: f"{bits[at]:x}" for name, bits in odd.items() if at in bits}
        made.log(values, step=row["batch_index"])
    made.finish()
    (path,) = folder.glob(f"wandb/offline-run-*-{trial['trial_id']}/run-{trial['trial_id']}.wandb")
    return path


def _when_ended(path: Path) -> OfflineRun:
    """Read a run once wandb has written its end, or what there is when it does not."""
    deadline = time.monotonic() + PATIENCE_S
    while not (read := read_offline_run(path)).ended and time.monotonic() < deadline:
        time.sleep(0.05)
    return read


def _check(read: OfflineRun, config: Mapping[str, Any], table: pa.Table, path: Path) -> None:
    found = {name: value for name, value in read.config.items() if name in config}
    if found != dict(config):
        name = next(name for name in config if found.get(name) != config[name])
        advice = "The export was deleted. Please report this as a fault of ablate, with wandb's version."
        raise StoreError(Problem(str(path), f"does not read back as it was written: config {name!r}", advice=advice))
    compare(table, table_of(read.history, table.schema), str(path))


def _json(value: Any, hashed: bool = False) -> Any:
    """Return a value that JSON keeps exactly."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, int) and not isinstance(value, bool) and (hashed or abs(value) > EXACT):
        return f"{value:016x}" if hashed else str(value)
    return value


def _parsed(text: str, kind: Any) -> Any:
    if pa.types.is_floating(kind):
        return float(text.strip('"'))
    return int(text.strip('"'), 16) if kind == pa.uint64() else int(text)
