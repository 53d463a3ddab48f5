"""The simulated batch against cases computed by hand, and its packing against Ray's own."""

from __future__ import annotations

import random

import pytest

from ablate.cluster.batch import Capacity, Job
from ablate.cluster.node_types import NodeType
from ablate.cluster.packing import need_of, nodes_to_add, pack
from ablate.cluster.simulate import simulate

HEAD = NodeType("head", {"CPU": 0.0}, 1, 1, None, True)
CPU = NodeType("cpu", {"CPU": 4.0, "tag": 1.0}, 0, 3)
GPU = NodeType("gpu", {"CPU": 2.0, "GPU": 1.0}, 0, 2)


def batch(jobs: list[Job], *types: NodeType, most: int | None = None, start_s: float = 100.0, idle_s: float = 60.0):
    return simulate(jobs, Capacity((HEAD, *types), most, start_s, idle_s))


def use(found, name: str):
    return next(one for one in found.uses if one.name == name)


def test_one_wave_on_one_node():
    """Four cores' worth of trials: one node, 0 to 100 s starting, 100 to 110 s running, gone at 170 s."""
    found = batch([Job("a", {"CPU": 1.0}, 10.0)] * 4, CPU)
    assert (found.first_s, found.end_s, found.idle_s) == (100.0, 110.0, 170.0)
    assert use(found, "cpu").steps == ((0.0, 1), (170.0, 0))
    assert use(found, "cpu").node_s == 170.0
    assert use(found, "cpu").trials == {"a": 4}
    assert use(found, "head").steps == ((0.0, 1),)
    assert use(found, "head").node_s == 170.0
    assert found.never == ()


def test_as_many_nodes_as_the_whole_batch_fills_at_once_and_no_more_than_there_may_be():
    """20 trials of a core would fill 5 nodes; 3 may be, so 12 run in the first wave, 8 in the second."""
    found = batch([Job("a", {"CPU": 1.0}, 10.0)] * 20, CPU)
    assert use(found, "cpu").peak == 3
    assert (found.end_s, found.idle_s) == (120.0, 180.0)
    # the third node's trials end with the first wave at 110 s: its 4 places of the 12 stay empty
    assert use(found, "cpu").steps == ((0.0, 3), (170.0, 2), (180.0, 0))
    assert use(found, "cpu").node_s == 170.0 + 2 * 180.0


def test_without_idle_time_a_node_runs_what_it_came_for_and_goes_with_its_last_trial():
    found = batch([Job("a", {"CPU": 1.0}, 10.0)] * 20, CPU, idle_s=0.0)
    assert (found.first_s, found.end_s, found.idle_s) == (100.0, 120.0, 120.0)
    assert use(found, "cpu").steps == ((0.0, 3), (110.0, 2), (120.0, 0))


def test_the_limit_on_all_workers_counts():
    found = batch([Job("a", {"CPU": 1.0}, 10.0)] * 20, CPU, most=2)
    assert use(found, "cpu").peak == 2
    assert found.end_s == 130.0


def test_a_tag_allows_one_at_a_time_on_a_node():
    found = batch([Job("a", {"CPU": 1.0, "tag": 1.0}, 10.0)] * 2, CPU)
    assert use(found, "cpu").peak == 2
    assert found.end_s == 110.0


def test_a_scarce_gpu_holds_up_no_cpu_trial():
    """Four GPU trials come first and share 2 nodes; the CPU trial runs meanwhile on a node without a GPU."""
    found = batch([Job("g", {"CPU": 1.0, "GPU": 1.0}, 50.0)] * 4 + [Job("c", {"CPU": 4.0}, 10.0)], CPU, GPU)
    assert use(found, "gpu").peak == 2
    assert use(found, "gpu").steps == ((0.0, 2), (260.0, 0))
    assert use(found, "cpu").steps == ((0.0, 1), (170.0, 0))
    assert use(found, "cpu").trials == {"c": 1}
    assert found.end_s == 200.0


def test_nodes_that_must_be_there_run_from_the_start_and_stay():
    kept = NodeType("cpu", {"CPU": 4.0}, 1, 2)
    found = batch([Job("a", {"CPU": 4.0}, 10.0)] * 2, kept)
    # one runs at once; a node was asked for at 0 for the other, which takes the first's place at 10 s instead
    assert (found.first_s, found.end_s) == (0.0, 20.0)
    # when that node is up at 100 s it is the last used of the two, and the first has been idle since 20 s
    assert use(found, "cpu").steps == ((0.0, 2), (100.0, 1))
    assert found.idle_s == 100.0


def test_what_fits_nowhere_is_named_and_the_rest_runs():
    found = batch([Job("huge", {"CPU": 64.0}, 10.0), Job("a", {"CPU": 1.0}, 10.0)], CPU)
    assert found.never == ("huge",)
    assert found.end_s == 110.0


def test_nothing_to_run():
    found = batch([], CPU)
    assert (found.end_s, found.idle_s) == (0.0, 0.0)
    assert use(found, "cpu").steps == ((0.0, 0),)


def test_a_thousand_trials_take_little_time():
    import time

    jobs = [Job("a", {"CPU": 1.0}, 10.0 + k % 7) for k in range(1000)]
    began = time.process_time()
    found = batch(jobs, NodeType("cpu", {"CPU": 4.0}, 0, 50))
    assert time.process_time() - began < 5.0
    assert sum(use(found, "cpu").trials.values()) == 1000


def test_a_trial_with_workers_starts_once_all_of_them_have_room_and_counts_once():
    """Two workers of 3 cores take two nodes of 4; the third node has room for one worker of the second trial only."""
    two = Job("two", {"CPU": 3.0}, 50.0, workers=2)
    found = batch([two, two, Job("a", {"CPU": 1.0}, 10.0)], CPU)
    assert use(found, "cpu").trials == {"two": 2, "a": 1}
    assert use(found, "cpu").peak == 3
    assert (found.first_s, found.end_s) == (100.0, 200.0)


def test_a_trial_whose_workers_are_on_two_types_counts_on_each():
    small = NodeType("small", {"CPU": 1.0}, 0, 1)
    found = batch([Job("wide", {"CPU": 1.0}, 10.0, workers=3)], small, NodeType("mid", {"CPU": 2.0}, 0, 1))
    assert [use(found, name).trials for name in ("small", "mid")] == [{"wide": 1}, {"wide": 1}]
    assert found.end_s == 110.0


@pytest.mark.parametrize("idle_s", [60.0, 0.0])
def test_workers_for_which_there_is_never_room_at_once_wait_for_ever_and_the_rest_runs(idle_s):
    """Three nodes' worth of workers where the whole cluster may have two; no node comes and goes without end."""
    jobs = [Job("wide", {"CPU": 4.0}, 10.0, workers=3), Job("a", {"CPU": 4.0}, 10.0)]
    found = batch(jobs, CPU, most=2, start_s=0.0, idle_s=idle_s)
    assert found.never == ("wide",)
    assert use(found, "cpu").trials == {"a": 1}
    assert found.end_s == 10.0


KINDS = ({"CPU": 1.0}, {"CPU": 2.0}, {"CPU": 1.0, "GPU": 1.0}, {"CPU": 1.0, "tag": 1.0}, {"CPU": 4.0}, {"GPU": 0.5})


@pytest.mark.filterwarnings("ignore")
def test_packing_agrees_with_rays_own():
    """Ray's functions, called on the same demands: 40 random batches, whole numbers and halves, so exactly."""
    from functools import partial

    scheduler = pytest.importorskip("ray.autoscaler._private.resource_demand_scheduler")
    scorer = partial(scheduler._default_utilization_scorer, node_availability_summary=None)
    drawn = random.Random(5)
    types = (HEAD, CPU, GPU, NodeType("both", {"CPU": 8.0, "tag": 2.0, "GPU": 2.0}, 0, 2))
    theirs = {one.name: {"resources": dict(one.resources), "max_workers": one.max_workers - one.head} for one in types}
    for _ in range(40):
        waiting = {need_of(kind): drawn.randrange(1, 9) for kind in drawn.sample(KINDS, drawn.randrange(1, 6))}
        demands = [dict(need) for need, count in waiting.items() for _ in range(count)]
        drawn.shuffle(demands)
        free = [{"CPU": 3.0, "GPU": 1.0}, {"CPU": 2.0, "tag": 1.0}]
        left, _ = scheduler.get_bin_pack_residual(free, demands)
        mine = pack(free, waiting)
        assert sorted(map(need_of, left)) == sorted(need for need, count in mine.items() for _ in range(count))
        most = drawn.randrange(1, 7)
        added, _ = scheduler.get_nodes_for(theirs, {"head": 1}, "head", most, left, utilization_scorer=scorer)
        assert nodes_to_add(types, {"head": 1}, most, mine) == dict(added)
