"""A store as `ablate launch` leaves it, of any size, without training anything: what the benchmarks of reading run on.

Grid, table of trials, batches and audits go through the product's own store, schemas, row groups and Parquet writer;
only the journal is left out, since a row a time it would take an hour for 10^8. Losses are a falling curve with noise,
float32 kept as float64 as a trial records them. An arm's repeat (A/A) has equal losses, a one-ulp arm's part from its
original's after some batches and are soon as far from them as another seed's, the two other arms' part at the first.

    python benchmarks/synthetic_store.py FOLDER [--blocks 200] [--levels 10] [--batches 10000]
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ablate.design.cross import trials as planned_trials
from ablate.design.spec import Arm, Contrast, GridSpec, Margin, Outcome
from ablate.design.trial_spec import AuditPlan, GuardPlan, Numerics, SketchPlan, TrialSpec
from ablate.record.create import create_folders, settle_spec
from ablate.record.parts import Entry, PartedData
from ablate.record.paths import StorePaths
from ablate.record.recorder import identity
from ablate.record.schema import SCHEMA_VERSION, SPEC_KEY, VERSION_KEY, audits_schema, batches_schema, factor_types
from ablate.record.trial_table import TrialTable

STUDY = "scale"
PART_TRIALS = 3250
"""Trials in a part after a merge: 65 flushes of 50 trials (``parts.MOST_PARTS``, ``store.FLUSH_ATTEMPTS``)."""
ULP_EQUAL = 37
"""Batches after which the losses of the one-ulp arm first differ from those of its original."""
POOL = 1 << 20
"""Normal draws made once; a trial takes a stretch of them, so that making 10^8 losses takes seconds."""


@dataclass(frozen=True)
class Size:
    """How large a store is to be: five arms, of which two are controls, times levels times blocks."""

    blocks: int
    levels: int
    batches: int

    @property
    def trials(self) -> int:
        """Trials in all."""
        return len(ARMS) * self.levels * self.blocks

    @property
    def rows(self) -> int:
        """Batches in all."""
        return self.trials * self.batches


FULL = Size(blocks=200, levels=10, batches=10_000)
"""10^8 batches of 10,000 trials."""

ARMS: dict[str, dict[str, Any]] = {
    "plain": {},
    "onednn-off": {"numerics": Numerics(onednn=False)},
    "two-threads": {"numerics": Numerics(threads=2)},
    "plain-again": {"repeat": "plain"},
    "one-ulp": {"repeat": "plain", "numerics": Numerics(perturb="one-ulp")},
}


def grid_of(size: Size, guard: GuardPlan | None = None) -> GridSpec:
    """Return the resolved grid."""
    blocks = tuple(range(size.blocks))
    same: dict[str, Any] = {"numerics": Numerics(), "settings": {}, "resources": {"CPU": 1.0}, "blocks": blocks}
    arms = {name: Arm(**{**same, **own}) for name, own in ARMS.items()}
    return GridSpec(
        study=STUDY,
        question="How long does it take to say what explains the gap?",
        trainable="nowhere:Nothing",
        settings={},
        factors={"width": tuple(8 * (1 + level) for level in range(size.levels))},
        arms=arms,
        blocks=blocks,
        batches=size.batches,
        outcome=Outcome(last=min(50, size.batches)),
        contrasts=tuple(Contrast(arms=("plain", name)) for name in ("onednn-off", "two-threads")),
        margin=Margin(value=2.0, unit="percent"),
        guard=guard or GuardPlan(),
        audit=AuditPlan(),
        sketches=SketchPlan(every=0),
    )


def write_store(root: Path, size: Size, guard: GuardPlan | None = None) -> GridSpec:
    """Write the store to ``root``, whose parent must be there, and return its grid."""
    grid = grid_of(size, guard)
    paths = StorePaths(root.absolute())
    create_folders(paths)
    spec = settle_spec(paths, grid, f"study: {STUDY}\n".encode())
    metadata = {VERSION_KEY: str(SCHEMA_VERSION).encode(), SPEC_KEY: spec.hash.encode()}
    factors = factor_types(grid.factors)
    specs = planned_trials(grid)
    by_key = {(one.trial_id, 1): one for one in specs}
    losses, audits = Losses(grid), Audits(grid)
    batches, audited = PartedData(paths, paths.batches, metadata), PartedData(paths, paths.audits, metadata)
    for some in _parts(specs):
        entries = [Entry(one.arm, one.block, one.trial_id, 1, grid.batches) for one in some]
        batches.append(entries, lambda entry: losses.table(by_key[entry.key], factors), batches_schema(factors))
        entries = [Entry(one.arm, one.block, one.trial_id, 1, len(audits.columns["check"])) for one in some]
        audited.append(entries, lambda entry: audits.table(by_key[entry.key], factors), audits_schema(factors))
    table = TrialTable(paths.trials, factors, metadata)
    for one in specs:
        table.put(_end(one, grid))
    table.write()
    return grid


class Losses:
    """Rows of ``batches``, made trial by trial."""

    def __init__(self, grid: GridSpec) -> None:
        self._grid = grid
        self._index = pa.array(np.arange(grid.batches))
        self._pool = np.random.default_rng(0).standard_normal(POOL + grid.batches)
        self._watched = np.array([grid.guard.covers(batch) for batch in range(grid.batches)])

    def of(self, spec: TrialSpec) -> np.ndarray[Any, Any]:
        """Return a trial's losses, shape (batches,)."""
        arm, width = spec.arm, list(self._grid.factors["width"]).index(spec.factors["width"])
        batch = np.arange(spec.batches)
        level = 0.2 - 0.005 * width + 0.02 * self._draw(spec.block, "level", 1)[0]
        curve = level * (1 + 4 / (1 + batch / 20))
        own = {"onednn-off": 1.0, "two-threads": 1.01}.get(arm, 1.0)
        loss = own * curve * (1 + 0.1 * self._draw(spec.block, f"noise {width}", spec.batches))
        if arm not in ("plain", "plain-again"):
            part = 0 if arm != "one-ulp" else ULP_EQUAL
            chaos = np.minimum(0.05, 1e-7 * np.exp(np.minimum((batch - part) / 30, 20)))
            chaos[:part] = 0
            loss += curve * chaos * self._draw(spec.block, f"{arm} {width}", spec.batches)
        return loss.astype(np.float32).astype(np.float64)

    def table(self, spec: TrialSpec, factors: dict[str, Any]) -> Any:
        """Return a trial's rows under the schema of ``batches``."""
        drawn = np.random.default_rng((1, spec.block)).integers(0, 2**63, (2, spec.batches), dtype=np.uint64)
        seconds = 0.005 * (1 + 0.05 * self._draw(spec.block, spec.trial_id, spec.batches))
        columns = {
            "batch_index": self._index,
            "loss": pa.array(self.of(spec)),
            "duration_s": pa.array(seconds.astype(np.float32)),
            "order_hash": pa.array(drawn[0], mask=~self._watched),
            "content_hash": pa.array(drawn[1], mask=~self._watched),
        }
        return _table(spec, columns, batches_schema(factors), spec.batches)

    def _draw(self, block: int, what: str, count: int) -> np.ndarray[Any, Any]:
        at = int.from_bytes(hashlib.sha256(f"{block} {what}".encode()).digest()[:4], "little") % POOL
        return self._pool[at : at + count]


class Audits:
    """Rows of ``audits``: every watched batch without a finding, the first three within rounding of float64.

    They are those of a trial after an arm's first block: the worst gradient and update with a count.
    """

    def __init__(self, grid: GridSpec) -> None:
        rows: list[dict[str, Any]] = []
        for batch in range(grid.batches):
            if grid.guard.covers(batch):
                said = "1259 saved, 6 never asked for by backward"
                rows.append(_row(batch, "saved_tensors", "clean", 1253, detail=said))
            if grid.audit.covers(batch):
                rows.append(_row(batch, "draw_state", "clean", None, near="torch", detail="17557db1a9875014"))
                for quantity, count in (("loss", 1), ("gradient", 19), ("update", 19)):
                    rows.append(_distance(batch, quantity, count))
        rows.append(_row(0, "precision", "clean", None, dtype="float32", roundoff=2.0**-24))
        schema = audits_schema(factor_types(grid.factors))
        self.columns = {
            field.name: pa.array([row.get(field.name) for row in rows], field.type)
            for field in schema
            if field.name not in ("trial_id", "arm", "block", "attempt") and not field.name.startswith("factor.")
        }
        self.columns["attempt"] = pa.array([1] * len(rows), pa.int64())

    def table(self, spec: TrialSpec, factors: dict[str, Any]) -> Any:
        """Return a trial's rows under the schema of ``audits``."""
        return _table(spec, self.columns, audits_schema(factors), len(self.columns["check"]))


def _parts(specs: tuple[TrialSpec, ...]) -> Iterator[list[TrialSpec]]:
    """Yield the trials of each part, sorted as a merge leaves them; parts follow the launch, block by block."""
    for start in range(0, len(specs), PART_TRIALS):
        yield sorted(specs[start : start + PART_TRIALS], key=lambda one: (one.arm, one.block, one.trial_id))


def _table(spec: TrialSpec, columns: dict[str, Any], schema: Any, rows: int) -> Any:
    constants = {"trial_id": spec.trial_id, "arm": spec.arm, "block": spec.block}
    constants |= {f"factor.{name}": level for name, level in spec.factors.items()}
    arrays = [
        pa.repeat(pa.scalar(constants[f.name], f.type), rows) if f.name in constants else columns[f.name]
        for f in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def _row(batch: int, check: str, verdict: str, count: int | None, **columns: Any) -> dict[str, Any]:
    return {"batch_index": batch, "check": check, "verdict": verdict, "count": count, **columns}


def _distance(batch: int, quantity: str, count: int) -> dict[str, Any]:
    numbers = {"error": 1e-9, "scale": 0.1, "bound": 1e-7, "roundoff": 2.0**-24}
    words = {"name": "last.weight", "reference": "plain", "dtype": "float32"}
    said = "within what rounding in float32 explains"
    anchor = None if quantity == "update" else 0.05
    return _row(
        batch, "distance", "rounding", count, quantity=quantity, shape=[3, 3], anchor=anchor, detail=said,
        **numbers, **words,
    )  # fmt: skip


def _end(spec: TrialSpec, grid: GridSpec) -> dict[str, Any]:
    streams = {name: f"{name} {spec.block}" for name in ("initial_hash", "order_hash", "draw_hash")}
    machine = {"host": "node", "cpu_model": "a processor", "torch": "2.13.0", "ablate": "1.0", "device": "cpu"}
    return {
        **identity(spec, 1),
        "status": "done",
        "batches": grid.batches,
        "evaluate": {},
        "data_hash": "data",
        "source_hash": "code",
        "wall_s": 0.005 * grid.batches,
        "cpu_s": 0.005 * grid.batches,
        "threads_used": 1,
        "started_utc": "2026-01-01T00:00:00+00:00",
        **streams,
        **machine,
    }


def main() -> None:
    """Write a store and say how large it is."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    for name in ("blocks", "levels", "batches"):
        parser.add_argument(f"--{name}", type=int, default=getattr(FULL, name))
    chosen = parser.parse_args()
    size = Size(chosen.blocks, chosen.levels, chosen.batches)
    shutil.rmtree(chosen.folder, ignore_errors=True)
    write_store(chosen.folder, size)
    used = sum(file.stat().st_size for file in chosen.folder.rglob("*") if file.is_file())
    print(f"{size.trials:,} trials, {size.rows:,} batches, {used / 1e6:,.0f} MB in {chosen.folder}")


if __name__ == "__main__":
    main()
