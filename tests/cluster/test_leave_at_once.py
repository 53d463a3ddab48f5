"""A cap on how many idle nodes leave at once: the others stay in use, as the autoscaler sees it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.conftest import wait_for

LOOKS = """
import json, sys, time, ray
from ray._raylet import GcsClient
from ray.core.generated.autoscaler_pb2 import GetClusterResourceStateReply, NodeStatus
from ablate.launch.ray_scale_in import ScaleIn

ray.init(sys.argv[1], log_to_driver=False, logging_level="ERROR")
gcs = GcsClient(address=sys.argv[1])
cap = ScaleIn(1)

def idle_s():
    \"\"\"Each node's idle time by its tag, as the autoscaler is told it.\"\"\"
    state = GetClusterResourceStateReply.FromString(gcs.get_cluster_resource_state()).cluster_resource_state
    return {
        tag: node.idle_duration_ms / 1000
        for node in state.node_states
        for tag in node.total_resources
        if tag in ("one", "two", "three") and node.status != NodeStatus.DEAD
    }

while True:
    cap.on_step_end(0, [])
    print(json.dumps(idle_s()), flush=True)
    time.sleep(0.3)
"""


def test_a_cap_needs_a_cluster(place):
    done = place.ablate("launch", place.grid("arms:\n  a: {}\n"), "--leave-at-once", "1")
    assert done.code == 2
    assert "--leave-at-once 1: without a cluster no node leaves allowed: --address" in done.words


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_one_idle_node_is_let_go_and_the_next_when_it_has_left(cluster, tmp_path):
    nodes = {name: cluster.add_node({"CPU": 1, name: 1}, wait=False) for name in ("one", "two", "three")}
    for node in nodes.values():
        cluster.wait_for(node)
    out = tmp_path / "looks.jsonl"
    with out.open("wb") as file:
        env = {**os.environ, "RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
        looking = subprocess.Popen([sys.executable, "-c", LOOKS, cluster.address], stdout=file, env=env)

    def idle(longer_than_s: float, of: int) -> set[str] | None:
        """Return the one node that has been idle for long, once all others are seen in use."""
        assert looking.poll() is None
        lines = [line for line in out.read_text().splitlines() if line.endswith("}")]
        now = json.loads(lines[-1]) if lines else {}
        long = {name for name, seconds in now.items() if seconds > longer_than_s}
        others = now.keys() - long
        return long if len(now) == of and len(long) == 1 and all(now[name] < 1.0 for name in others) else None

    try:
        (first,) = wait_for(lambda: idle(10.0, of=3), 120)
        cluster.kill(nodes.pop(first))
        (second,) = wait_for(lambda: idle(10.0, of=2), 120)
        cluster.kill(nodes.pop(second))
        assert wait_for(lambda: idle(10.0, of=1), 120) == set(nodes)
    finally:
        looking.kill()
        looking.wait()
