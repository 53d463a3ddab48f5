"""What a user would write to get a gap from recorded losses: DuckDB on the store's Parquet, pandas on CSV.

Each answers as ``ablate gap`` does from the rows of batches: the outcome of every trial (mean loss over its last
batches), the paired difference of every block and contrast, and, unless only endpoints are asked for, in which batch
each matched pair first differs. No statistics, no hashes, no audits. Prints JSON.

    python benchmarks/analysis_peers.py duckdb|duckdb-endpoints|ablate-endpoints|pandas PATH BATCHES LAST
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

REFERENCE = "plain"
Found = dict[str, dict[str, Any]]
"""Of each arm that is compared with the reference: ``gaps`` by block and, unless not asked for, ``first`` (the earliest
first differing batch; None if no pair differs) and ``differing`` pairs."""

ENDPOINTS = """
create temp table endpoints as
select arm, block, "factor.width" as width, avg(loss) as outcome from batches
where batch_index >= {start} group by all
"""
GAPS = """
select other.arm, other.block, avg(other.outcome) - avg(own.outcome) from endpoints other join endpoints own
on own.arm = '{reference}' and own.block = other.block and own.width = other.width
where other.arm <> '{reference}' group by all
"""
FIRST = """
select arm, min(first), count(*) from (
    select other.arm, other.block, other."factor.width", min(other.batch_index) as first from batches other
    join batches own on own.arm = '{reference}' and own.block = other.block
    and own."factor.width" = other."factor.width" and own.batch_index = other.batch_index
    where other.arm <> '{reference}' and own.loss <> other.loss group by all
) group by arm
"""


def by_duckdb(store: Path, batches: int, last: int, endpoints_only: bool) -> Found:
    """Ask DuckDB, which takes all cores."""
    import duckdb

    base = duckdb.connect()
    base.execute(f"create view batches as select * from read_parquet('{store}/batches/*.parquet')")
    base.execute(ENDPOINTS.format(start=batches - last))
    found: Found = {}
    for arm, block, gap in base.execute(GAPS.format(reference=REFERENCE)).fetchall():
        found.setdefault(arm, {"gaps": {}})["gaps"][str(block)] = gap
    if not endpoints_only:
        firsts = {
            arm: (first, count) for arm, first, count in base.execute(FIRST.format(reference=REFERENCE)).fetchall()
        }
        for arm, own in found.items():
            own["first"], own["differing"] = firsts.get(arm, (None, 0))
    return found


def by_ablate(store: Path) -> Found:
    """Ask this project's reader for the endpoints alone."""
    from ablate.record.reader import Run
    from analysis.controls import all_contrasts
    from analysis.pairing import Sides, pair
    from analysis.run_data import read_outcomes, read_trials

    run = Run(store)
    trials, recorded = read_trials(run)
    outcomes = read_outcomes(run, trials, recorded)
    pairings = {
        one.arms[1]: pair(trials, outcomes, Sides.of(one, run.grid)) for one in all_contrasts(run.grid) if one.arms
    }
    return {
        arm: {"gaps": {str(one.block): one.other - one.reference for one in found.pairs}}
        for arm, found in pairings.items()
    }


def by_pandas(csv: Path, batches: int, last: int) -> Found:
    """Read the CSV whole, as scripts do."""
    import pandas as pd

    table = pd.read_csv(csv)
    cell = ["block", "factor.width"]
    window = table[table["batch_index"] >= batches - last]
    endpoints = window.groupby(["arm", *cell])["loss"].mean()
    reference = table[table["arm"] == REFERENCE].set_index([*cell, "batch_index"])["loss"]
    found: Found = {}
    for arm in table["arm"].unique():
        if arm == REFERENCE:
            continue
        gaps = (endpoints[arm] - endpoints[REFERENCE]).groupby("block").mean()
        own = table[table["arm"] == arm].set_index([*cell, "batch_index"])["loss"]
        differing = own.index[own != reference.reindex(own.index)].to_frame(index=False)
        first = differing.groupby(cell)["batch_index"].min()
        found[arm] = {"gaps": {str(block): gap for block, gap in gaps.items()}}
        found[arm] |= {"first": int(first.min()) if len(first) else None, "differing": len(first)}
    return found


def main() -> None:
    """Print what one of them finds, and the seconds from when this file began to run."""
    began = time.perf_counter()
    name, path, batches, last = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    if name == "pandas":
        found = by_pandas(path, batches, last)
    elif name == "ablate-endpoints":
        found = by_ablate(path)
    else:
        found = by_duckdb(path, batches, last, endpoints_only=name == "duckdb-endpoints")
    print(json.dumps({"found": found, "s": time.perf_counter() - began}))


if __name__ == "__main__":
    main()
