"""A trial's workers on two nodes: the same trial as on one machine, and one end for all of them."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.place import losses, rows_of, start, under_way
from tests.cluster.small_cluster import Cluster
from tests.conftest import RAY_GONE_S, Workplace, whole

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

TRAINABLES = Path(__file__).parents[1] / "trial" / "worker_trainables.py"
TWO = "arms:\n  shared: {workers: 2}\n"
BATCHES = 40


@pytest.fixture(scope="module")
def shared() -> Iterator[Cluster]:
    """A head that runs no trials, and the nodes ``west`` and ``east``, of one core: two workers never fit on one."""
    with Cluster() as cluster:
        for node in [cluster.add_node({"CPU": 1}, host=host, wait=False) for host in ("west", "east")]:
            cluster.wait_for(node)
        yield cluster


def begin(place: Workplace, cluster: Cluster, grid: str = TWO, settings: str = "{step_s: 0.1}", **keys):
    shutil.copy(TRAINABLES, place.folder)
    keys = {"trainable": "worker_trainables:Shared", "batches": BATCHES, "blocks": 1, **keys}
    return start(place, cluster, grid, settings=settings, **keys)


def alone(place: Workplace) -> list[tuple[str, int, str]]:
    """Run the same grid beside, both workers on this machine and without sleeps; return its losses."""
    words = ("launch", "grid.yaml", "--local", "--runs", "beside")
    done = place.finish(place.start(*words, env={"alive": "1"}), 300)
    assert done.code == 0, done.text
    return losses(place.folder / "beside" / "doubles")


def test_two_workers_on_two_nodes_make_one_trial(place, shared):
    done = place.finish(begin(place, shared, blocks=2), 400)
    assert done.code == 0, done.text
    assert whole(place.root(), batches=BATCHES) == 2
    for row in rows_of(place).values():
        assert row["workers"] == 2
        hosts = [host.split(" ")[0] for host in row["worker_hosts"].split("; ")]
        assert hosts[0] == row["host"]
        assert sorted(hosts) == ["east", "west"]
    assert losses(place.root()) == alone(place)


@pytest.mark.parametrize("who", [0, 1])
def test_a_worker_that_is_killed_fails_the_attempt_by_infrastructure_and_is_named(place, shared, who):
    settings = f"{{fault: kill, at: 3, who: {who}, once: {json.dumps(str(place.folder / 'killed'))}}}"
    done = place.finish(begin(place, shared, settings=settings), 400)
    assert done.code == 0, done.text
    assert f", attempt 1, worker {who} of 2: its process died by signal 9: tried again as attempt 2" in done.words
    (row,) = rows_of(place).values()
    assert (row["status"], row["attempt"], row["failures_infrastructure"]) == ("done", 2, 1)
    assert place.left_running() == {}


def test_a_launch_that_is_killed_leaves_no_worker_on_any_node(place, shared):
    process = begin(place, shared, batches=100_000)
    under_way(place, process, 1)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert place.left_running(RAY_GONE_S) == {}


def test_workers_that_no_nodes_have_room_for_are_refused(place, shared):
    done = place.finish(begin(place, shared, "arms:\n  shared: {workers: 3}\n"), 300)
    assert done.code == 4, done.text
    assert "asks for 3 workers, and there is room for 2 at once" in done.words


def test_a_lost_node_fails_the_attempt_on_both_and_leaves_nothing(place, shared):
    """Last, since Ray goes on counting on a lost node for a while."""
    process = begin(place, shared)
    (where,) = under_way(place, process, 1).values()
    assert where in ("east", "west")
    shared.kill(next(node for node in shared.nodes if node.name == "east"))
    north = shared.add_node({"CPU": 1}, host="north")
    done = place.finish(process, 400)
    shared.kill(north)
    assert done.code == 0, done.text
    (row,) = rows_of(place).values()
    assert row["failures_infrastructure"] >= 1
    assert row["failures_code"] == 0
    assert sorted(host.split(" ")[0] for host in row["worker_hosts"].split("; ")) == ["north", "west"]
    assert losses(place.root()) == alone(place)
    assert place.left_running() == {}
