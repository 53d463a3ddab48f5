"""Nodes that are lost while their trials run, that come and go, or whose clock is wrong.

The trials go elsewhere in the same launch, the others are unaffected, and every loss is that of an undisturbed run.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from ablate.record.check import check
from ablate.record.reader import Run
from tests.cluster.place import BATCHES, losses, rows_of, start, under_way, undisturbed
from tests.cluster.small_cluster import Cluster, Node
from tests.conftest import whole

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

TWO = "arms:\n  one: {}\n  two: {settings: {at: 4}}\n"
NORTH = {"CPU": 2, "north": 1}
TAGGED = "arms:\n  one: {resources: {behind: 1}}\n  two: {resources: {ahead: 1}, settings: {at: 4}}\n"


@pytest.fixture(scope="module")
def shared() -> Iterator[Cluster]:
    """A head that runs no trials, and the node ``west``, which stays."""
    with Cluster() as cluster:
        cluster.add_node({"CPU": 1}, host="west")
        yield cluster


@pytest.fixture
def east(shared: Cluster) -> Iterator[Node]:
    """A second node, which a test may lose."""
    node = shared.add_node({"CPU": 1}, host="east")
    yield node
    if node in shared.nodes:
        shared.kill(node)


@pytest.fixture
def north(shared: Cluster) -> Iterator[Node]:
    """The only node with a tag; room for two, since the arm that asks for none may land there too."""
    yield shared.add_node(NORTH, host="north")
    for node in [node for node in shared.nodes if node.name == "north"]:
        shared.kill(node)


def same_as_undisturbed(place, *tags):
    beside = undisturbed(place, *tags)
    assert beside.code == 0, beside.text
    assert losses(place.root()) == losses(place.folder / "beside" / "doubles")


@pytest.mark.parametrize("what", ["machine", "raylet"])
def test_a_lost_node_s_trial_is_tried_again_on_another(place, shared, east, what):
    process = start(place, shared, TWO, blocks=1)
    running = under_way(place, process, 2)
    assert sorted(running.values()) == ["east", "west"]
    shared.kill(east) if what == "machine" else shared.kill_raylet(east)
    done = place.finish(process, 400)
    assert done.code == 0, done.text
    assert whole(place.root(), batches=BATCHES) == 2
    lost = next(key.trial_id for key, host in running.items() if host == "east")
    kept = next(key.trial_id for key, host in running.items() if host == "west")
    rows = rows_of(place)
    assert (rows[lost]["host"], rows[lost]["attempt"], rows[lost]["failures_infrastructure"]) == ("west", 2, 1)
    assert (rows[kept]["host"], rows[kept]["attempt"], rows[kept]["failures_infrastructure"]) == ("west", 1, 0)
    assert f"trial {lost} (arm " in done.words
    assert done.words.count(": tried again as attempt ") == 1
    assert "raylet" not in done.out  # Ray's own words on a dead node are not the user's
    same_as_undisturbed(place)


def test_a_trial_goes_on_at_its_checkpoint_on_another_machine_and_says_so(place, shared, east):
    process = start(place, shared, TWO, blocks=1, checkpoint="{batches: 2}")
    running = under_way(place, process, 2)
    lost = next(key.trial_id for key, host in running.items() if host == "east")
    shared.kill(east)
    done = place.finish(process, 400)
    assert done.code == 0, done.text
    row = rows_of(place)[lost]
    assert (row["host"], row["attempt"]) == ("west", 2)
    assert row["resumed_at"] >= 2
    assert row["moved_from"].startswith("east (")
    assert row["moved_from"].endswith(f") to batch {row['resumed_at'] - 1}")
    assert [finding.code for finding in check(Run(place.root()))] == ["C12"]
    assert "; 1 trial continued on another machine; " in place.ablate("verdict", "doubles").words
    told = place.ablate("gap", "doubles")
    assert f"1 of arm {row['arm']}'s 1 trial was continued on another machine (block 0: east (" in told.words
    same_as_undisturbed(place)  # east and west are one machine


def test_a_node_that_writes_on_after_the_cluster_lost_it_counts_for_nothing(place, shared, east):
    """Missed after 24 s and waited for during 10 s more, it trains for 80 s in all, and makes checkpoints."""
    process = start(place, shared, TWO, batches=800, blocks=1, checkpoint="{batches: 20}")
    running = under_way(place, process, 2)
    lost = next(key for key, host in running.items() if host == "east")
    shared.cut_off(east)
    done = place.finish(process, 400)
    assert done.code == 0, done.text
    assert f"trial {lost.trial_id}, attempt 1: its process " in done.words
    assert " on east still writes " in done.words
    assert "; what it adds from here on counts for nothing" in done.words
    row = rows_of(place)[lost.trial_id]
    assert (row["host"], row["attempt"], row["failures_infrastructure"]) == ("west", 2, 1)
    assert [finding.code for finding in check(Run(place.root()))] == ["C12"]  # it went on at east's checkpoint
    same_as_undisturbed(place)


def test_an_arm_whose_only_node_is_lost_says_so_and_goes_on_when_one_joins(place, shared, north):
    process = start(place, shared, "arms:\n  one: {}\n  two: {resources: {north: 1}, settings: {at: 4}}\n", blocks=1)
    under_way(place, process, 2)
    shared.kill(north)
    said = line_with(process, "arm two: 1 trial cannot be placed since ")
    assert "UTC: no live node offers CPU 1, north 1 any more. Start such a node (ray start --address HEAD:6379 " in said
    assert "--resources '{\"north\": 1}') and they go on, or end the launch: what is recorded is kept" in said
    assert "1 waiting for CPU 1, north 1 since " in line_with(process, "% of batches, ")
    shared.add_node(NORTH, host="north")
    done = place.finish(process, 400)
    assert done.code == 0, done.text
    assert "for CPU 1, north 1: a node has it now" in done.words
    assert whole(place.root(), batches=BATCHES) == 2
    same_as_undisturbed(place, "north")


def line_with(process, part: str) -> str:
    """Return the next line on standard error that has this part."""
    return next(line for line in process.stderr if part in line)


def test_a_node_that_joins_and_leaves_twice(place, shared, east):
    """Trials of 20 s: a new node may take longer than one of 4 s until it trains, and the others would be done."""
    process = start(place, shared, "arms:\n  one: {}\n", blocks=6, settings="{step_s: 0.5}")
    lost = []
    for comes in (east, None):
        node = comes or shared.add_node({"CPU": 1}, host="east")
        running = under_way(place, process, 2, lost=lost)
        lost += [key for key, host in running.items() if host == "east"]
        shared.kill(node)
    done = place.finish(process, 600)
    assert done.code == 0, done.text
    assert whole(place.root(), batches=BATCHES) == 6
    rows = rows_of(place)
    assert len(lost) == 2
    assert sum(row["failures_infrastructure"] for row in rows.values()) == 2
    assert all(row["failures_code"] == 0 for row in rows.values())
    same_as_undisturbed(place)


def test_nothing_depends_on_clocks_that_agree(place, shared):
    nodes = [
        shared.add_node({"CPU": 1, host: 1}, host=host, ahead_s=ahead_s, wait=False)
        for host, ahead_s in (("ahead", 3600.0), ("behind", -3600.0))
    ]
    for node in nodes:
        shared.wait_for(node)
    process = start(place, shared, TAGGED, blocks=2, stall_minutes=1.0, checkpoint="{minutes: 0.01}")
    done = place.finish(process, 400)
    for node in nodes:
        shared.kill(node)
    assert done.code == 0, done.text
    assert "tried again" not in done.words  # one that is judged by another's clock would be ended as hung at once
    assert whole(place.root(), batches=BATCHES) == 4
    for row in rows_of(place).values():
        off_s = (row["started_utc"] - datetime.now(UTC)).total_seconds()
        assert abs(off_s - (3600 if row["host"] == "ahead" else -3600)) < 600  # the clocks were wrong indeed
        assert 0 < row["wall_s"] < 400
    same_as_undisturbed(place, "ahead", "behind")
