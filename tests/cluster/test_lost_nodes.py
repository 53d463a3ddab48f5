"""Nodes that are lost while their trials run: the trials go elsewhere in the same launch, the others are unaffected."""

from __future__ import annotations

import pytest

from tests.cluster.place import BATCHES, losses, rows_of, start, under_way, undisturbed
from tests.conftest import whole

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

TWO = "arms:\n  one: {}\n  two: {settings: {at: 4}}\n"


def complete(place, done, trials=2):
    assert done.code == 0, done.text
    assert whole(place.root(), batches=BATCHES) == trials
    beside = undisturbed(place)
    assert beside.code == 0, beside.text
    assert losses(place.root()) == losses(place.folder / "beside" / "doubles")


@pytest.mark.parametrize("what", ["machine", "raylet"])
def test_a_lost_node_s_trial_is_tried_again_on_another(place, two_nodes, what):
    process = start(place, two_nodes, TWO, blocks=1)
    running = under_way(place, process, 2)
    assert sorted(running.values()) == ["east", "west"]
    east = next(node for node in two_nodes.nodes if node.name == "east")
    two_nodes.kill(east) if what == "machine" else two_nodes.kill_raylet(east)
    done = place.finish(process, 300)
    lost = next(key.trial_id for key, host in running.items() if host == "east")
    kept = next(key.trial_id for key, host in running.items() if host == "west")
    complete(place, done)
    rows = rows_of(place)
    assert (rows[lost]["host"], rows[lost]["attempt"], rows[lost]["failures_infrastructure"]) == ("west", 2, 1)
    assert (rows[kept]["host"], rows[kept]["attempt"], rows[kept]["failures_infrastructure"]) == ("west", 1, 0)
    assert f"trial {lost} (arm " in done.words
    assert done.words.count(": tried again as attempt ") == 1


def test_a_trial_goes_on_at_its_checkpoint_on_another_machine_and_says_so(place, two_nodes):
    process = start(place, two_nodes, TWO, blocks=1, checkpoint="{batches: 2}")
    running = under_way(place, process, 2)
    lost = next(key.trial_id for key, host in running.items() if host == "east")
    two_nodes.kill(next(node for node in two_nodes.nodes if node.name == "east"))
    done = place.finish(process, 300)
    assert done.code == 0, done.text
    row = rows_of(place)[lost]
    assert (row["host"], row["attempt"]) == ("west", 2)
    assert row["resumed_at"] >= 2
    assert row["moved_from"].startswith("east (")
    assert row["moved_from"].endswith(f") to batch {row['resumed_at'] - 1}")
    assert whole_but_moved(place)
    told = place.ablate("verdict", "doubles")
    assert f"1 of arm {row['arm']}'s 1 trial was continued on another machine (block 0: east (" in told.words

    beside = undisturbed(place)
    assert beside.code == 0, beside.text
    assert losses(place.root()) == losses(place.folder / "beside" / "doubles")  # east and west are one machine


def whole_but_moved(place):
    from ablate.record.check import check
    from ablate.record.reader import Run

    return [finding.code for finding in check(Run(place.root()))] == ["C12"]


def test_a_node_that_joins_and_leaves_twice(place, cluster):
    cluster.add_node({"CPU": 1}, host="stays", wait=False)
    comes = cluster.add_node({"CPU": 1}, host="comes", wait=False)
    for node in cluster.nodes:
        cluster.wait_for(node)
    process = start(place, cluster, "arms:\n  one: {}\n", blocks=8)
    for left in range(2):
        seen = under_way(place, process, 2)
        assert "comes" in seen.values()
        cluster.kill(comes)
        if left == 0:
            comes = cluster.add_node({"CPU": 1}, host="comes")
    done = place.finish(process, 400)
    complete(place, done, trials=8)
    rows = rows_of(place).values()
    assert sum(row["failures_infrastructure"] for row in rows) == 2
    assert all(row["failures_code"] == 0 for row in rows)
    assert {row["host"] for row in rows} >= {"stays"}
