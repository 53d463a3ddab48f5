"""``ablate gap``, ``verdict`` and ``report`` over 10^8 batches, beside DuckDB on their Parquet and pandas on CSV.

Every measurement is a process from its start to its end, with as many threads as it takes by itself; its memory is its
largest resident size. The peers give the same outcomes, gaps and first differing batches, which is checked; what else
``gap`` says (hashes of streams, audits, tests, intervals, verdicts) they leave out. pandas gets a hundredth of the
rows, since its table of all of them does not fit into memory: its seconds without its start are multiplied by 100.

    python benchmarks/analysis_scale.py [--repeats 3] [--json FILE] [--blocks 200] [--store FOLDER]
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import isclose
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.measured import Comparison, arguments, report
from benchmarks.own_process import ABLATE, Cost, run
from benchmarks.synthetic_store import FULL, STUDY, Size, write_store

PEERS = Path(__file__).with_name("analysis_peers.py")
SHARE = 100
"""pandas gets one row of so many."""
GAP_S, GAP_BYTES, REPORT_S = 10.0, 1.5e9, 90.0
BYTES_A_ROW = 10
"""What a store takes, for the look at the disk beforehand; CSV of a hundredth and the page come to less than that."""


def main() -> None:
    """Measure everything and print one row for each command."""
    parser = arguments(__doc__, 3)
    parser.add_argument("--blocks", type=int, default=FULL.blocks, help=f"of 50 trials each; {FULL.blocks} unless told")
    parser.add_argument("--store", type=Path, help="a store of synthetic_store.py of this size, in place of a new one")
    chosen = parser.parse_args()
    size = Size(chosen.blocks, FULL.levels, FULL.batches)
    with store_of(size, chosen.store) as (store, scratch):
        rows = measure(store, scratch, size, chosen.repeats)
    report(f"Reading {size.rows:,} batches of {size.trials:,} trials", rows, chosen.json)


@contextmanager
def store_of(size: Size, given: Path | None) -> Iterator[tuple[Path, Path]]:
    """Give a store and a folder for what else is written, both gone afterwards unless the store was given."""
    with tempfile.TemporaryDirectory(prefix="ablate-scale-") as folder:
        free = shutil.disk_usage(folder).free
        if given is None and free < 2 * BYTES_A_ROW * size.rows:
            raise SystemExit(
                f"{folder} has {free / 1e9:.1f} GB free, {2 * BYTES_A_ROW * size.rows / 1e9:.1f} are needed"
            )
        store = given or Path(folder) / STUDY
        if given is None:
            write_store(store, size)
        yield store, Path(folder)


def measure(store: Path, scratch: Path, size: Size, repeats: int) -> list[Comparison]:
    """Run ours and the peers, check that they agree, and compare."""
    csv = scratch / "batches.csv"
    share = write_csv(store, csv, size)
    last = str(min(50, size.batches))

    def peer(name: str, path: Path = store) -> list[Cost]:
        return [run([sys.executable, PEERS, name, path, str(size.batches), last]) for _ in range(repeats)]

    gap = [run([*ABLATE, "gap", store, "--json"]) for _ in range(repeats)]
    verdict = [run([*ABLATE, "verdict", store, "--json"]) for _ in range(repeats)]
    whole, pandas = peer("duckdb"), peer("pandas", csv)
    endpoints, own_endpoints = peer("duckdb-endpoints"), peer("ablate-endpoints")
    page = run([*ABLATE, "report", store, "--output", scratch / "report.html"])
    ours = of_gap(json.loads(gap[0].out))
    for found in (whole, endpoints, own_endpoints, pandas):
        check(ours, json.loads(found[0].out)["found"], all_blocks=found is not pandas)
    scaled = [cost.wall_s + (share - 1) * json.loads(cost.out)["s"] for cost in pandas]
    slowest = min(median(c.wall_s for c in whole), median(scaled))
    rows = []
    for name, costs in (("gap", gap), ("verdict", verdict)):
        wall, peak = median(c.wall_s for c in costs), max(c.peak_bytes for c in costs)
        fits = wall < GAP_S and peak < GAP_BYTES and wall < slowest
        target = f"< {GAP_S:g} s, < {GAP_BYTES / 1e9:g} GB, faster than both"
        for peer_name, seconds, also in (
            ("DuckDB, same Parquet", [c.wall_s for c in whole], costs_note(whole)),
            (f"pandas, CSV of 1/{share}, scaled", scaled, costs_note(pandas) + " unscaled"),
        ):
            note = f"ours: {costs_note(costs)}; peer: {also}"
            rows.append(row(f"ablate {name}", [c.wall_s for c in costs], peer_name, seconds, target, fits, note))
    note = f"ours: {costs_note(own_endpoints)}; peer: {costs_note(endpoints)}; no target: gap itself answers more"
    ends = [[c.wall_s for c in costs] for costs in (own_endpoints, endpoints)]
    rows.append(row("outcomes and gaps alone", ends[0], "DuckDB, same Parquet", ends[1], "", None, note))
    fits = page.wall_s < REPORT_S
    rows.append(row("ablate report", [page.wall_s], "", [], f"< {REPORT_S:g} s", fits, f"{costs_note([page])}; once"))
    return rows


def row(
    what: str, ours: Sequence[float], peer_name: str, peer: Sequence[float], target: str, met: bool | None, note: str
) -> Comparison:
    """Return a comparison of seconds."""
    return Comparison(what, "s", tuple(ours), peer_name, tuple(peer), target, met, note)


def costs_note(costs: Sequence[Cost]) -> str:
    """Say what CPU and memory some processes took."""
    return f"CPU {median(c.cpu_s for c in costs):.1f} s, peak {max(c.peak_bytes for c in costs) / 1e9:.2f} GB"


def write_csv(store: Path, csv: Path, size: Size) -> int:
    """Write the first blocks as CSV, a hundredth of the rows where there are so many; return which share it is."""
    import pyarrow.compute as pc
    from pyarrow import csv as arrow_csv

    from ablate.record.reader import Run

    blocks = max(1, size.blocks // SHARE)
    columns = ["arm", "block", "factor.width", "batch_index", "loss"]
    arrow_csv.write_csv(Run(store).batches(columns, pc.field("block") < blocks), csv)
    return size.blocks // blocks


def of_gap(said: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return what a gap report says of each arm, in the form of the peers'."""
    found = {}
    for one in said["contrasts"]:
        arm = one["other"].removeprefix("arm ")
        gaps = {str(pair["block"]): pair["other"] - pair["reference"] for pair in one["pairs"]}
        first, differing = one["divergence"]["earliest"], one["divergence"]["differing"]
        found[arm] = {"gaps": gaps, "first": first, "differing": differing}
    return found


def check(ours: dict[str, dict[str, Any]], theirs: dict[str, dict[str, Any]], all_blocks: bool) -> None:
    """Refuse a comparison of things that do not answer alike: gaps up to rounding, batches exactly.

    Raises:
        RuntimeError: they differ.
    """
    for arm, own in ours.items():
        other = theirs[arm]
        if all_blocks and own["gaps"].keys() != other["gaps"].keys():
            raise RuntimeError(f"{arm}: other blocks")
        for block, gap in other["gaps"].items():
            if not isclose(gap, own["gaps"][block], rel_tol=1e-9, abs_tol=1e-12):  # outcomes are .1: 50 sums' rounding
                raise RuntimeError(f"{arm}, block {block}: {gap} is not {own['gaps'][block]}")
        if all_blocks and "first" in other and (own["first"], own["differing"]) != (other["first"], other["differing"]):
            raise RuntimeError(f"{arm}: first differing batches {other['first']} in {other['differing']} pairs")


if __name__ == "__main__":
    main()
