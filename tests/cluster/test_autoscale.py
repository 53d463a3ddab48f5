"""Two tagged node types grow from zero for a grid and go again: Ray's fake provider, its autoscaler, real trials."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest

from ablate.cluster.node_types import read_node_types
from ablate.cluster.simulate import Capacity, Job, simulate
from ablate.record.reader import Run
from tests.cluster.scaling_cluster import IDLE_S, INTERVAL_S, ScalingCluster
from tests.cluster.small_cluster import runs
from tests.conftest import Workplace, wait_for, whole

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

TYPES = {"east": ({"CPU": 2, "cpu_east": 2}, 2), "west": ({"CPU": 1, "cpu_west": 1}, 1)}
TRIAL_S = 24.0
"""Longer than a node takes to start here, so that trials wait while the second node of a type comes."""

GRID = f"""\
arms:
  east: {{resources: {{cpu_east: 1}}, settings: {{step_s: {TRIAL_S / 6}}}}}
  west: {{resources: {{cpu_west: 1}}, settings: {{step_s: {TRIAL_S / 12}}}}}
"""
IMPOSSIBLE = """\
arms:
  wide: {threads: 1, resources: {CPU: 4, cpu_east: 1}}
"""
WATCH = """
import json, sys, time, ray
ray.init(sys.argv[1], log_to_driver=False, logging_level="ERROR")
while True:
    alive = [node for node in ray.nodes() if node["Alive"]]
    kinds = {node["NodeID"]: key[4:] for node in alive for key in node["Resources"] if key.startswith("cpu_")}
    print(json.dumps([time.time(), kinds]), flush=True)
    time.sleep(0.25)
"""
RAYS = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}


class Watch:
    """What a driver of its own sees of the nodes, over time."""

    def __init__(self, place: Workplace, address: str) -> None:
        self._file = place.folder / "watched.jsonl"
        with self._file.open("wb") as out:
            command = [sys.executable, "-c", WATCH, address]
            self._process = subprocess.Popen(command, stdout=out, cwd=place.folder, env={**place.environment, **RAYS})
        wait_for(self.seen)

    def seen(self) -> list[tuple[float, dict[str, str]]]:
        return [json.loads(line) for line in self._file.read_text().splitlines() if line.endswith("]")]

    def now(self) -> dict[str, str]:
        """Return the nodes that are there, each with its type."""
        return self.seen()[-1][1]

    def taken_back(self) -> set[str]:
        """Return nodes that were gone before they could have been idle for long enough to go.

        Ray counts a node that starts slowly for one more second as not there, starts another, sees one more than a type
        may have, and ends it at once (its monitor says "Removing 1 nodes of type west (max_workers_per_type)").
        """
        times: dict[str, list[float]] = {}
        for at, kinds in self.seen():
            for node in kinds:
                times.setdefault(node, []).append(at)
        return {node for node, ats in times.items() if ats[-1] - ats[0] < IDLE_S - INTERVAL_S}

    def peak(self, kind: str) -> int:
        """Return how many nodes of a type there were at once, apart from those taken back."""
        without = self.taken_back()
        return max(sum(k == kind and node not in without for node, k in kinds.items()) for _, kinds in self.seen())

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()


def test_a_grid_scales_two_types_from_zero_and_back(place, capsys):
    with ScalingCluster(TYPES) as cluster:
        address = ("--address", cluster.address)
        refused = place.ablate("launch", place.grid(IMPOSSIBLE, "impossible.yaml"), *address, env=RAYS)
        assert refused.code == 4, refused.text
        assert "arms.wide.resources.CPU: asks for CPU: 4, the most on one node is 2" in refused.words
        assert "The nearest is node type east (up to 2), where CPU 2, cpu_east 1 would fit." in refused.words
        assert not place.root().exists()

        watch = Watch(place, cluster.address)
        try:
            assert not watch.now()
            began = time.time()
            launched = place.finish(place.start("launch", place.grid(GRID, blocks=4), *address, env=RAYS), 500)
            assert launched.code == 0, launched.text
            wait_for(lambda: not watch.now(), 240)
        finally:
            watch.close()
        everything = cluster.processes()
        planned = simulate(
            [Job(arm, {"CPU": 1.0, f"cpu_{arm}": 1.0}, TRIAL_S) for arm in TYPES for _ in range(4)],
            Capacity(read_node_types(cluster.file), None, 10.0, IDLE_S),
        )
    assert whole(place.root()) == 8
    peaks = {name: watch.peak(name) for name in TYPES}
    assert len(watch.taken_back()) <= len(TYPES)  # each type grows from zero once, and that is when Ray miscounts
    assert peaks == {use.name: use.peak for use in planned.uses if use.name in TYPES} == {"east": 2, "west": 1}
    rows = Run(place.root()).trials().to_pylist()
    starts = [row["started_utc"].timestamp() for row in rows]
    finished = max(start + row["wall_s"] for start, row in zip(starts, rows, strict=True))
    there = max(at for at, kinds in watch.seen() if kinds)
    left = min(at for at, _ in watch.seen() if at > there)
    assert left - finished >= IDLE_S - INTERVAL_S  # none leaves before it was idle for so long
    assert not [process for process in everything if runs(process)]
    with capsys.disabled():
        print(
            f"\nrefused after {refused.seconds:.1f} s; first trial {min(starts) - began:.1f} s after the start; "
            f"last node gone {left - finished:.1f} s after the last trial's end, of which {IDLE_S:g} s idle time; "
            f"nodes that Ray took back at once: {len(watch.taken_back())}"
        )
