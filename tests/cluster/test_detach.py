"""Launches submitted to a cluster: they go on without the terminal, are followed, stopped, resumed."""

from __future__ import annotations

import json
import time

import pytest

from tests.cluster.small_cluster import Cluster
from tests.conftest import whole

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

GRID = "arms: {one: {resources: {CPU: 1, east: 1}}, two: {resources: {CPU: 1, west: 1}}}\n"
ENV = {"RAY_AUTH_MODE": "disabled", "RAY_ADDRESS": "127.0.0.1:1"}  # --address wins


@pytest.fixture(scope="module")
def jobs():
    """A cluster whose head serves jobs."""
    with Cluster(dashboard=True) as cluster:
        for node in [cluster.add_node({"CPU": 1, name: 1}, host=name, wait=False) for name in ("east", "west")]:
            cluster.wait_for(node)
        yield cluster


def run(place, *words):
    return place.finish(place.start(*words, env=ENV), 400)


def followed(place, jobs, run_name):
    done = run(place, "status", run_name, "--address", jobs.dashboard_url, "--json")
    assert done.code == 0, done.text
    return json.loads(done.out)


def until(place, jobs, run_name, reached, within_s=500):
    deadline = time.monotonic() + within_s
    while not reached(found := followed(place, jobs, run_name)):
        assert time.monotonic() < deadline, found
    return found


def test_a_submitted_launch_ends_by_itself_and_is_followed(place, jobs):
    place.grid(GRID)
    submitted = run(place, "launch", "grid.yaml", "--detach", "--address", jobs.dashboard_url)
    assert submitted.code == 0, submitted.text
    assert "it goes on without this terminal" in submitted.out
    assert f"ablate status '{place.root()}'".replace("'", "") in submitted.out.replace("'", "").replace('"', "")
    found = until(place, jobs, "doubles", lambda found: found["job"]["state"] not in ("PENDING", "RUNNING"))
    assert (found["job"]["state"], found["job"]["exit_code"]) == ("SUCCEEDED", 0), found
    assert [arm["done"] for arm in found["run"]["arms"]] == [2, 2]
    assert found["job"]["store"] == str(place.root())
    assert whole(place.root()) == 4
    words = run(place, "status", place.root(), "--address", jobs.dashboard_url).words
    assert "succeeded, exit code 0" in words
    assert "doubles: 4 of 4 trials done" in words
    over = run(place, "stop", "doubles", "--address", jobs.dashboard_url)
    assert over.code == 0
    assert "succeeded" in over.out
    missing = run(place, "status", "double", "--address", jobs.dashboard_url)
    assert missing.code == 2
    assert "no launch of it was submitted" in missing.err
    assert "did you mean 'doubles'?" in missing.err


def test_a_submitted_launch_is_stopped_keeps_its_rows_and_is_resumed(place, jobs):
    place.grid(GRID, study="slow", batches=4000, blocks=1, settings="{step_s: 0.2}")
    assert run(place, "launch", "grid.yaml", "--detach", "--address", jobs.dashboard_url).code == 0
    second = run(place, "launch", "grid.yaml", "--detach", "--address", jobs.dashboard_url)
    assert second.code == 6
    assert "is already launching it" in second.err
    until(place, jobs, "slow", lambda found: found["run"] and found["run"]["batches"] > 5)
    stopped = run(place, "stop", "slow", "--address", jobs.dashboard_url, "--json")
    assert stopped.code == 0, stopped.text
    found = json.loads(stopped.out)
    assert found["job"]["state"] == "STOPPED"
    assert found["run"]["writer"] == ""
    assert "terminated; finished trials are kept" in " ".join(found["said"])  # in order, not by kill -9
    resumed = place.ablate(
        "launch", "grid.yaml", "--local", "--offer", "east", "--offer", "west", env={"DOUBLES_WELL": "1"}
    )
    assert resumed.code == 0, resumed.text
    assert whole(place.root("slow"), batches=4000) == 2


def test_what_the_head_finds_wrong_is_followed_too(place, jobs):
    place.grid(GRID, study="wrong", settings="{fault: raise}")
    assert run(place, "launch", "grid.yaml", "--detach", "--address", jobs.dashboard_url).code == 0
    found = until(place, jobs, "wrong", lambda found: found["job"]["state"] not in ("PENDING", "RUNNING"))
    assert (found["job"]["state"], found["job"]["exit_code"]) == ("FAILED", 3)
    assert [arm["failed"] for arm in found["run"]["arms"]] == [2, 2]


def test_doctor_says_what_each_node_is(place, jobs):
    for address in (jobs.address, jobs.dashboard_url):
        done = run(place, "doctor", "--address", address, "--json")
        assert done.code == 0, done.text
        nodes = {node["host"]: node for node in json.loads(done.out)["nodes"]}
        assert nodes["east"]["resources"] == {"CPU": 1.0, "east": 1.0}
        assert nodes["west"]["versions"] == nodes["east"]["versions"]
        assert len(nodes) == 3
    pretend = place.folder / "other" / "torch"
    pretend.mkdir(parents=True)
    (pretend / "__init__.py").write_text(OTHER_TORCH)
    node = jobs.add_node({"CPU": 1, "north": 1}, env={"PYTHONPATH": str(pretend.parent)})
    try:
        done = run(place, "doctor", "--address", jobs.address)
        assert done.code == 4, done.text
        assert "torch differs between nodes: 1.99.0 on" in done.err
        place.grid(GRID)
        assert run(place, "doctor", "--address", jobs.address, "--grid", "grid.yaml").code == 0  # none lands there
    finally:
        jobs.kill(node)


OTHER_TORCH = """
import os, sys
here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:] = [path for path in sys.path if os.path.abspath(path or ".") != here]
del sys.modules["torch"]
import torch
torch.__version__ = "1.99.0+cpu"
"""
