"""``ablate status`` and ``ablate runs`` on a store with 10,000 trials, whole processes from their start to their end.

The peer is what a folder of a JSON file a trial costs, which is how Tune and most scripts keep them: each file is
opened and the last line parsed, in a bare Python that imports next to nothing. It says no more than how many are done.

    python benchmarks/listing.py [--repeats 5] [--json FILE]
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from statistics import median

from benchmarks.measured import Comparison, arguments, report
from benchmarks.own_process import ABLATE, run
from benchmarks.synthetic_store import STUDY, Size, grid_of, write_store

SIZE = Size(blocks=200, levels=10, batches=100)
LIMIT_S = 2.0
TITLE = "Listing a store with 10,000 trials"
PEER = """
import collections, json, pathlib, sys
found = collections.Counter()
for file in sorted(pathlib.Path(sys.argv[1]).glob("*/result.json")):
    last = json.loads(file.read_text().splitlines()[-1])
    found[last["config"]["arm"]] += last["done"]
print(json.dumps(found))
"""


def write_json_trials(folder: Path, size: Size, lines: int) -> None:
    """Write a folder a trial with a ``result.json`` of so many lines, as Tune does, the last of them with its end."""
    config = {"study": STUDY, "trainable": "nowhere:Nothing", "settings": {}}
    grid = grid_of(size)
    for arm in grid.arms:
        for level in grid.factors["width"]:
            for block in grid.blocks:
                own = folder / f"trial_{arm}_{level}_{block}"
                own.mkdir(parents=True)
                row = {"config": {**config, "arm": arm, "width": level, "block": block}, "loss": 0.1, "done": False}
                text = "".join(json.dumps({**row, "training_iteration": at}) + "\n" for at in range(lines - 1))
                (own / "result.json").write_text(text + json.dumps({**row, "done": True}) + "\n")


def main() -> None:
    """Print one row for each command."""
    chosen = arguments(__doc__, 5).parse_args()
    with tempfile.TemporaryDirectory(prefix="ablate-listing-") as folder:
        runs, trials = Path(folder) / "runs", Path(folder) / "json"
        runs.mkdir()
        write_store(runs / STUDY, SIZE)
        write_json_trials(trials, SIZE, 10)
        words = {
            "status": [*ABLATE, "status", runs / STUDY, "--json"],
            "runs": [*ABLATE, "runs", "--runs", runs, "--json"],
        }
        costs = {name: [run(own) for _ in range(chosen.repeats)] for name, own in words.items()}
        peer = [run([sys.executable, "-c", PEER, trials]) for _ in range(chosen.repeats)]
    done = sum(json.loads(peer[0].out).values())
    said = {"status": json.loads(costs["status"][0].out), "runs": json.loads(costs["runs"][0].out)[0]}
    assert all(sum(arm["done"] for arm in one["arms"]) == done == SIZE.trials for one in said.values()), "all see all"
    rows = [
        Comparison(
            f"ablate {name}, {SIZE.trials:,} trials",
            "s",
            tuple(cost.wall_s for cost in own),
            "a JSON file a trial, read by json alone",
            tuple(cost.wall_s for cost in peer),
            f"< {LIMIT_S:g} s",
            median(cost.wall_s for cost in own) < LIMIT_S,
            f"CPU {median(cost.cpu_s for cost in own):.2f} s, peak {max(c.peak_bytes for c in own) / 1e6:.0f} MB; "
            f"the peer's files are in the page cache and have 10 lines each",
        )
        for name, own in costs.items()
    ]
    report(TITLE, rows, chosen.json)


if __name__ == "__main__":
    main()
