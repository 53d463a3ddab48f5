"""`ablate plan GRID --cluster FILE`: the dry run."""

from __future__ import annotations

import json

import pytest

from ablate.cluster.batch import TypeUse
from ablate.launch.cluster_table import timeline
from tests.cluster.texts import PODS

GRID = """\
arms:
  fast: {threads: 4, resources: {cpu_fast: 1}}
  t4: {device: cuda, resources: {gpu_t4: 1}}
"""
CLUSTER = """\
cluster_name: c
max_workers: 4
idle_timeout_minutes: 5
provider: {type: aws, region: r}
available_node_types:
  head: {resources: {CPU: 0}, node_config: {InstanceType: m7i.large}, max_workers: 0}
  fast: {resources: {CPU: 4, cpu_fast: 4}, node_config: {InstanceType: m7i.xlarge}, max_workers: 3}
  slow: {resources: {CPU: 4, cpu_slow: 4}, node_config: {InstanceType: m6a.xlarge}, max_workers: 3}
  t4: {resources: {CPU: 4, GPU: 1, gpu_t4: 1}, node_config: {InstanceType: g4dn.xlarge}, max_workers: 1}
head_node_type: head
"""


def cluster(place, text: str = CLUSTER) -> str:
    (place.folder / "cluster.yaml").write_text(text)
    return "cluster.yaml"


def test_nodes_over_time_by_hand(place):
    """Four trials each. fast: 3 nodes from 0; 3 trials to 13 min, the last to 23; left at 18 and 28 min.

    t4: a node from 0; trials end at 13, 23, 33 and 43 min; left at 48 min. The head stays: 48 min.
    """
    found = place.ablate("plan", place.grid(GRID, blocks=4), "--cluster", cluster(place), "--json")
    assert found.code == 0, found.text
    plan = json.loads(found.out)["cluster"]
    uses = {use["name"]: use for use in plan["simulation"]["uses"]}
    assert uses["fast"]["steps"] == [[0, 3], [18 * 60, 1], [28 * 60, 0]]
    assert uses["fast"]["peak"] == 3
    assert uses["fast"]["node_s"] == (18 + 18 + 28) * 60
    assert uses["fast"]["trials"] == {"fast": 4}
    assert uses["t4"]["steps"] == [[0, 1], [48 * 60, 0]]
    assert uses["slow"]["steps"] == [[0, 0]]
    assert uses["head"]["node_s"] == 48 * 60
    assert [plan["simulation"][key] for key in ("first_s", "end_s", "idle_s")] == [180, 43 * 60, 48 * 60]
    assert plan["simulation"]["never"] == []
    assert plan["warnings"] == []


def test_the_table_says_what_it_takes_and_what_it_assumes(place):
    found = place.ablate("plan", place.grid(GRID, blocks=4), "--cluster", cluster(place))
    assert found.code == 0, found.text
    assert (
        "on cluster.yaml: first trial after 3 min, last one ends after 43 min, nodes are gone after 48 min; "
        "2.67 node-hours" in found.words
    )
    assert "fast m7i.xlarge 4 3 3 1.07" in found.words
    assert "not needed: slow" in found.words
    assert "assumed: a trial lasts 10 min, since nothing was timed: --measure or --from RUN does" in found.words
    assert "a node takes 3 min to start, is had when asked for, and leaves after 5 min without a trial" in found.words
    assert "$" not in found.out


def test_an_arm_that_no_type_serves_is_refused(place):
    done = place.ablate(
        "plan", place.grid("arms:\n  wide: {threads: 8, resources: {cpu_fast: 1}}\n"), "--cluster", cluster(place)
    )
    assert done.code == 4
    assert "arms.wide.resources.CPU: asks for CPU: 8, the most on one node is 4" in done.words
    assert "The nearest is node type fast (up to 3), where CPU 4, cpu_fast 1 would fit." in done.words


def test_threads_are_held_against_the_clusters_cores_not_this_machines(place):
    big = CLUSTER.replace("CPU: 4, cpu_slow: 4", "CPU: 512, cpu_slow: 1")
    done = place.ablate("plan", place.grid("arms:\n  wide: {threads: 512}\n"), "--cluster", cluster(place, big))
    assert done.code == 0, done.text


def test_an_arm_without_a_tag_that_would_take_a_gpu_node_is_warned_of(place):
    """Four cores' worth of the only other type are taken by arms with its tag, and Ray takes any type for the rest."""
    grid = GRID + "  any: {}\n"
    only_gpus = CLUSTER.replace("max_workers: 3", "max_workers: 1").replace("cpu_slow: 4}", "cpu_slow: 4, GPU: 1}")
    found = place.ablate("plan", place.grid(grid, blocks=8), "--cluster", cluster(place, only_gpus), "--json")
    assert found.code == 0, found.text
    (warning,) = json.loads(found.out)["cluster"]["warnings"]
    assert warning.startswith("these arms ask for no GPU and would take nodes that have one: any (")
    assert warning.endswith("; give them the tag of a type without")


def test_arms_that_nodes_which_must_be_there_keep_out_for_ever_are_warned_of(place):
    full = CLUSTER.replace("max_workers: 4", "max_workers: 1").replace("cpu_slow: 4}", "cpu_slow: 4}, min_workers: 1")
    grid = place.grid(GRID + "  slow: {resources: {cpu_slow: 1}}\n")
    found = place.ablate("plan", grid, "--cluster", cluster(place, full), "--json")
    assert found.code == 0, found.text
    plan = json.loads(found.out)["cluster"]
    never = plan["simulation"]["never"]
    assert sorted(never) == ["fast", "t4"]
    (warning,) = plan["warnings"]
    assert warning.startswith(
        "these arms would wait for ever, since the nodes that must be there and the cluster's limit"
    )
    assert f" leave them no room: {', '.join(never)}; raise the max_workers of the whole cluster" in warning


@pytest.mark.parametrize(("written", "idle_s"), [("", 60), ("autoscalerOptions: {idleTimeoutSeconds: 0}", 0)])
def test_a_manifests_pods_leave_after_its_own_idle_time_or_kuberays(place, written, idle_s):
    pods = PODS.replace("enableInTreeAutoscaling: true", f"enableInTreeAutoscaling: true\n  {written}")
    grid = place.grid("arms:\n  a: {resources: {cpu_avx512: 1}}\n")
    found = place.ablate("plan", grid, "--cluster", cluster(place, pods), "--json")
    assert found.code == 0, found.text
    simulated = json.loads(found.out)["cluster"]["simulation"]
    assert simulated["idle_s"] - simulated["end_s"] == idle_s


@pytest.mark.parametrize("how", [(), ("--local", "--address", "127.0.0.1:1")])
def test_a_file_for_a_launch_without_a_cluster_is_refused(place, how):
    done = place.ablate("launch", place.grid("arms:\n  a: {}\n"), "--cluster", cluster(place), *how)
    assert done.code == 2
    assert (
        "--cluster cluster.yaml: says what a running cluster can add allowed: --address, without --local" in done.words
    )


@pytest.mark.parametrize(
    ("steps", "bars"),
    [
        (((0.0, 0), (50.0, 4), (75.0, 0)), "  █"),
        (((0.0, 4), (25.0, 1)), "█▂▂▂"),
        (((0.0, 0), (30.0, 4), (40.0, 0)), " █"),  # shorter than a column, and shown
    ],
)
def test_a_timeline_shows_the_most_of_each_part(steps, bars):
    use = TypeUse("a", steps, 4, 0.0, {})
    assert timeline(use, 100.0, 4) == bars


def test_workers_of_a_trial_that_no_node_has_room_for_together_are_placed_on_several(place):
    """Two blocks of two workers, each a whole node of type slow: a trial on two nodes to 13 min, the next to 23 min.

    The third node has come for one of the second trial's workers, and goes when that trial starts elsewhere.
    """
    grid = place.grid("arms:\n  one: {workers: 2, threads: 4, resources: {cpu_slow: 2}}\n", blocks=2)
    found = place.ablate("plan", grid, "--cluster", cluster(place), "--json")
    assert found.code == 0, found.text
    plan = json.loads(found.out)["cluster"]
    assert (plan["simulation"]["never"], plan["warnings"]) == ([], [])
    (slow,) = (use for use in plan["simulation"]["uses"] if use["name"] == "slow")
    assert slow["steps"] == [[0, 3], [13 * 60, 2], [28 * 60, 0]]
    assert slow["trials"] == {"one": 2}
    assert plan["simulation"]["end_s"] == 23 * 60
    assert "a trial whose workers are on several node types counts as a trial of each" in plan["assumed"]
