"""The cluster that other tests build on: its nodes are found, pretend what they are told to, and die alone."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import psutil
import pytest

LOOK = """
import json, socket, sys, time
import ray
ray.init(address=sys.argv[1], log_to_driver=False, logging_level="ERROR")

@ray.remote(num_cpus=1)
def look():
    return socket.gethostname(), time.time()

seen = ray.get([look.options(resources={tag: 1}).remote() for tag in sys.argv[2:]])
print(json.dumps({"seen": seen, "alive": sum(node["Alive"] for node in ray.nodes()), "now": time.time()}))
"""


def look(cluster, *tags):
    command = [sys.executable, "-W", "ignore", "-c", LOOK, cluster.address, *tags]
    printed = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout
    return json.loads(next(line for line in printed.splitlines() if line.startswith("{")))  # Ray talks too


@pytest.mark.slow
def test_nodes_have_names_and_clocks_of_their_own_and_one_dies_alone(cluster):
    east = cluster.add_node({"CPU": 1, "east": 1}, host="east", wait=False)
    west = cluster.add_node({"CPU": 1, "west": 1}, host="west", ahead_s=3600.0, wait=False)
    cluster.wait_for(east)
    cluster.wait_for(west)
    found = look(cluster, "east", "west")
    assert [host for host, _ in found["seen"]] == ["east", "west"]
    assert 3500 < found["seen"][1][1] - found["now"] < 3700
    assert abs(found["seen"][0][1] - found["now"]) < 60
    assert found["alive"] == 3

    dying = east.processes()
    cluster.kill(east)
    assert len(dying) > 3
    assert not [process for process in dying if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]
    assert west.process.poll() is None
    deadline = time.monotonic() + 60
    while (alive := look(cluster, "west")["alive"]) == 3 and time.monotonic() < deadline:
        time.sleep(0.5)
    assert alive == 2
