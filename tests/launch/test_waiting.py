"""Trials that wait for what no live node has any more: said once, in the line of progress, and when it is over."""

from __future__ import annotations

import re
from types import SimpleNamespace

from ablate.cluster.node_types import NodeType
from ablate.launch.placement import Node
from ablate.launch.probes_ended import ProbesEnded
from ablate.launch.progress import describe
from ablate.launch.waiting import LATE_S, Waiting
from ablate.record.paths import StorePaths

HEAD = Node("head", {"CPU": 0.0})
EAST = Node("east", {"CPU": 2.0, "cpu_east": 2.0})
TYPE = NodeType("east", {"CPU": 2.0, "cpu_east": 2.0}, 0, 4, None, None)
CLOSED = NodeType("east", {"CPU": 2.0, "cpu_east": 2.0}, 0, 0, None, None)


PENDING = [(arm, {"CPU": 1.0, "cpu_east": 1.0}) for arm in ("one", "two") for _ in range(2)]
SINCE = r"\d\d:\d\d:\d\d UTC"


def test_a_resource_that_is_gone_is_said_once_with_whose_trials_wait_since_when_and_what_to_do():
    told: list[str] = []
    waiting = Waiting(told.append)
    waiting.look(PENDING, [HEAD, EAST], 0.0)
    assert told == []
    assert waiting.words == ""
    for now_s in (10.0, 15.0, 20.0):
        waiting.look(PENDING, [HEAD], now_s)
    [said] = told
    assert re.fullmatch(
        rf"arms one, two: 4 trials cannot be placed since {SINCE}: no live node offers CPU 1, cpu_east 1 any more\. "
        r"Start such a node \(ray start --address HEAD:6379 --resources '\{\"cpu_east\": 1\}'\) and they go on, "
        r"or end the launch: what is recorded is kept, and the next launch goes on from there\.",
        said,
    )
    assert re.fullmatch(rf"4 waiting for CPU 1, cpu_east 1 since {SINCE}", waiting.words)
    waiting.look(PENDING[:1], [HEAD, EAST], 200.0)
    assert told[1:] == ["arms one, two: 4 trials waited 3 min for CPU 1, cpu_east 1: a node has it now"]
    assert waiting.words == ""
    waiting.look(PENDING[:1], [HEAD], 300.0)  # gone again, said again
    assert told[2].startswith("arm one: 1 trial cannot be placed since ")


def test_trials_that_only_wait_for_their_turn_are_no_news():
    told: list[str] = []
    waiting = Waiting(told.append, node_types=lambda: 1 / 0)  # nor is anything asked
    waiting.look([("one", {"CPU": 1.0})] * 99, [EAST], 1e6)
    assert told == []
    assert waiting.words == ""


def test_a_node_that_the_cluster_adds_has_time_to_come_and_is_then_missed():
    told: list[str] = []
    asked: list[int] = []
    waiting = Waiting(told.append, lambda: asked.append(1) or (TYPE,))
    waiting.look(PENDING, [HEAD], 0.0)
    waiting.look(PENDING, [HEAD], LATE_S - 1)
    assert told == []
    assert waiting.words == ""
    waiting.look(PENDING, [HEAD], LATE_S)
    [said] = told
    assert "no live node offers CPU 1, cpu_east 1, and the cluster has not added one of type east. `ray status`" in said
    assert asked == [1]
    waiting.look([], [HEAD], LATE_S + 1)  # they were ended: nobody waits, and no node came
    assert len(told) == 1
    assert waiting.words == ""


def test_a_type_of_which_there_may_be_none_will_not_come():
    told: list[str] = []
    Waiting(told.append, lambda: (CLOSED,)).look(PENDING, [HEAD], 0.0)
    assert "any more. Start such a node" in told[0]


def test_probes_that_wait_are_told_of_in_their_line_of_progress(tmp_path):
    waiting = Waiting(lambda said: None)
    store = SimpleNamespace(paths=StorePaths(tmp_path))
    ended = ProbesEnded(store, [], SimpleNamespace(follow=lambda state: None), waiting)
    assert ended.state().waiting == ""
    waiting.look(PENDING, [HEAD], 0.0)
    assert re.search(rf"4 waiting for CPU 1, cpu_east 1 since {SINCE}", describe(ended.state(), None))
