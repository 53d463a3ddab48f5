"""10,000 small files become fewer than 100 while another process writes more and a third reads without a pause.

Ours: attempts of a hundred batches are appended one by one, a file each, as many as there are files to be; the writer
merges as a launch does. A reader in another process opens the run and reads every batch, again and again; each time it
must see whole attempts, none twice. Peer: the same files in a folder, written by pyarrow; one process reads them as a
data set and writes one file in their place, then unlinks them, while a reader does as ours does. What is counted is how
often a read failed or saw a wrong number of rows: over a thousand reads in one run. Ours brings each file to the disk
before it counts, the peer does not.

    python benchmarks/compaction.py [--repeats 1] [--json FILE] [--files 10000]
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from ablate.design.cross import trials as planned_trials
from ablate.record.create import create_folders, settle_spec
from ablate.record.part import Entry
from ablate.record.parts import PartedData
from ablate.record.paths import StorePaths
from ablate.record.schema import batches_schema, factor_types
from benchmarks.measured import Comparison, arguments, report
from benchmarks.own_process import ROOT
from benchmarks.synthetic_store import Losses, Size, grid_of

FILES, ROWS, MOST_FILES = 10_000, 100, 100
EVERY = 1000
"""After so many files the peer makes one of all: each time it rewrites all that there is."""
LETTERS = 200
"""Shown of the first error."""
TITLE = "Small files compacted while they are read and written"


@dataclass(frozen=True)
class Compacted:
    """One run of one way: seconds, files before and after, reads, and reads that failed or saw wrong rows."""

    seconds: float
    before: int
    after: int
    reads: int
    failed: int
    first: str


def read_ours(root: Path) -> int:
    """Read every batch of a store; return how many whole attempts it has.

    Raises:
        ValueError: an attempt is there in part, or twice.
    """
    from ablate.record.reader import Run

    return whole(Run(root).batches(["trial_id", "batch_index"]))


def read_naive(folder: Path) -> int:
    """Read every batch of a folder's files as a data set; return how many whole attempts it has.

    Raises:
        ValueError: an attempt is there in part, or twice.
    """
    return whole(ds.dataset(str(folder), format="parquet").to_table(columns=["trial_id", "batch_index"]))


def whole(table: pa.Table) -> int:
    """Return how many attempts a table has, which must be whole.

    Raises:
        ValueError: one is there in part, or twice.
    """
    counts = table["trial_id"].combine_chunks().value_counts().field("counts").to_numpy()
    if (counts != ROWS).any():
        raise ValueError(f"{int((counts != ROWS).sum())} attempts have other than {ROWS} rows")
    return len(counts)


def read_until(path: Path, over: Path, ours: bool) -> dict[str, Any]:
    """Read until the file ``over`` is there; return how often, and what went wrong. Attempts must not become fewer."""
    reads, failed, before, first = 0, 0, 0, ""
    while not over.exists():
        try:
            seen = (read_ours if ours else read_naive)(path)
            if seen < before:
                raise ValueError(f"{before} attempts before, {seen} now")
            before = seen
        except Exception as error:
            failed += 1
            first = first or f"{type(error).__name__}: {' '.join(str(error).split())[:LETTERS]}"
        reads += 1
    return {"reads": reads, "failed": failed, "first": first}


def compact_ours(root: Path, tables: Sequence[tuple[Entry, pa.Table]], read: bool = True) -> Compacted:
    """Append attempts to a store one by one, as its writer does, and merge at the end, as its close does."""
    size = Size(blocks=max(1, len(tables) // 50), levels=10, batches=ROWS)
    paths, grid = StorePaths(root), grid_of(size)
    create_folders(paths)
    settle_spec(paths, grid, b"study: scale\n")
    data = PartedData(paths, paths.batches, {})
    with read_beside(root, ours=True, read=read) as found:
        began, written = time.perf_counter(), 0
        for entry, table in tables:
            data.add({entry: table})
            written += 1
        data.merge()
        seconds = time.perf_counter() - began
    return Compacted(seconds, written, len(paths.parts(paths.batches)), **found)


def compact_naive(folder: Path, tables: Sequence[tuple[Entry, pa.Table]], read: bool = True) -> Compacted:
    """Write a file for each attempt, and every ``EVERY`` files all of them as one in their place, as scripts do."""
    folder.mkdir()
    with read_beside(folder, ours=False, read=read) as found:
        began = time.perf_counter()
        for at, (_, table) in enumerate(tables):
            pq.write_table(table, folder / f"small-{at}.parquet")
            if at % EVERY == EVERY - 1 or at == len(tables) - 1:
                files = sorted(folder.glob("*.parquet"))
                pq.write_table(ds.dataset(files, format="parquet").to_table(), folder / f"whole-{at}.parquet")
                for file in files:
                    file.unlink()
        seconds = time.perf_counter() - began
    return Compacted(seconds, len(tables), len(list(folder.glob("*.parquet"))), **found)


@contextmanager
def read_beside(path: Path, ours: bool, read: bool) -> Iterator[dict[str, Any]]:
    """Read ``path`` in another process while the block runs; give a dict that is filled when it ends."""
    found: dict[str, Any] = {"reads": 0, "failed": 0, "first": ""}
    if not read:
        yield found
        return
    over = path.with_name(path.name + ".over")
    words = [sys.executable, __file__, "--read", path, over, "ours" if ours else "naive"]
    options: dict[str, Any] = {"stdout": subprocess.PIPE, "text": True, "cwd": ROOT, "env": {"PYTHONPATH": "."}}
    process = subprocess.Popen(list(map(str, words)), **options)
    try:
        yield found
    finally:
        over.touch()
        said = process.communicate()[0]
    found.update(json.loads(said))


def attempts(files: int) -> list[tuple[Entry, pa.Table]]:
    """Return so many attempts with their tables, in launch order."""
    size = Size(blocks=-(-files // 50), levels=10, batches=ROWS)
    grid = grid_of(size)
    factors, losses = factor_types(grid.factors), Losses(grid)
    schema = batches_schema(factors)
    made = []
    for spec in planned_trials(grid)[:files]:
        entry = Entry(spec.arm, spec.block, spec.trial_id, 1, ROWS)
        made.append((entry, losses.table(spec, factors).cast(schema)))
    return made


def rows(ours: Sequence[Compacted], peer: Sequence[Compacted]) -> list[Comparison]:
    """Compare files, failed reads and seconds."""
    name = "pyarrow, read and rewritten"
    note = f"ours: {sum(one.reads for one in ours)} reads; peer: {sum(one.reads for one in peer)}"
    firsts = [next((one.first for one in some if one.first), "") for some in (ours, peer)]
    said = [f"{whose} first: {first}" for whose, first in zip(("ours", "the peer's"), firsts, strict=True) if first]
    files = [[float(one.after) for one in some] for some in (ours, peer)]
    failed = [[float(one.failed) for one in some] for some in (ours, peer)]
    seconds = [[one.seconds for one in some] for some in (ours, peer)]
    few, none = max(files[0]) < MOST_FILES, max(failed[0]) == 0 and all(one.reads > 0 for one in ours)
    before = ours[0].before
    return [
        Comparison(
            f"files left of {before:,}", "files", tuple(files[0]), name, tuple(files[1]), f"< {MOST_FILES}", few, note
        ),
        Comparison(
            "reads that failed or saw attempts in part, twice, or fewer than before", "reads", tuple(failed[0]), name,
            tuple(failed[1]), "0", none, "; ".join([note, *said]),
        ),
        Comparison("wall, all of it, read beside", "s", tuple(seconds[0]), name, tuple(seconds[1]), note=note),
    ]  # fmt: skip


def main() -> None:
    """Run both in turn and print the rows; with ``--read``, be the reader."""
    if sys.argv[1:2] == ["--read"]:
        print(json.dumps(read_until(Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4] == "ours")))
        return
    parser = arguments(__doc__, 1)
    parser.add_argument("--files", type=int, default=FILES, help=f"{FILES} unless told")
    chosen = parser.parse_args()
    tables = attempts(chosen.files)
    ours, peer = [], []
    for _ in range(chosen.repeats):
        with tempfile.TemporaryDirectory(prefix="ablate-compaction-") as folder:
            ours.append(compact_ours(Path(folder) / "scale", tables))
            peer.append(compact_naive(Path(folder) / "naive", tables))
    report(TITLE, rows(ours, peer), chosen.json)


if __name__ == "__main__":
    main()
