"""An arm that nothing can run is refused before anything starts, and its owner is told what would fit."""

from __future__ import annotations

import pytest

from ablate.cluster.node_types import NodeType
from ablate.errors import UnmetPlacement
from ablate.launch.placement import Node, check, unmet

HEAD = Node("head", {"CPU": 0.0})
TYPES = (
    NodeType("wide", {"CPU": 8.0, "cpu_avx512": 1.0}, 0, 10),
    NodeType("fast", {"CPU": 4.0, "cpu_avx512": 2.0}, 0, 2),
    NodeType("t4", {"CPU": 4.0, "GPU": 1.0, "gpu_t4": 1.0}, 0, 0),
)
OPEN = (
    "allowed: head: CPU 0; node type wide (up to 10): CPU 8, cpu_avx512 1; "
    "node type fast (up to 2): CPU 4, cpu_avx512 2"
)


def refusal(**request: float) -> list[str]:
    with pytest.raises(UnmetPlacement) as caught:
        check({"arm": request}, [HEAD], node_types=TYPES)
    assert caught.value.exit_code == 4
    return [line.strip() for line in str(caught.value).splitlines()]


def test_a_node_that_can_be_added_counts():
    request = {"arm": {"CPU": 8.0, "cpu_avx512": 1.0}}
    assert unmet(request, [HEAD]) == ["arm"]
    check(request, [HEAD], node_types=TYPES)
    with pytest.raises(UnmetPlacement):
        check(request, [HEAD])


def test_too_much_of_something_says_what_would_fit():
    assert refusal(CPU=16.0, cpu_avx512=1.0) == [
        "arms.arm.resources.CPU: asks for CPU: 16, the most on one node is 8",
        OPEN,
        "The nearest is node type wide (up to 10), where CPU 8, cpu_avx512 1 would fit.",
    ]


def test_what_fits_on_no_single_node_says_what_would_fit():
    assert refusal(CPU=8.0, cpu_avx512=2.0) == [
        "arms.arm.resources: asks for CPU 8, cpu_avx512 2 on one node; no node offers all of it",
        OPEN,
        "The nearest is node type wide (up to 10), where CPU 8, cpu_avx512 1 would fit.",
    ]


def test_a_misspelled_tag_gets_the_nearest():
    assert refusal(CPU=1.0, cpu_avx51=1.0) == [
        "arms.arm.resources.cpu_avx51: asks for cpu_avx51: 1, no node offers it",
        "did you mean 'cpu_avx512'?",
        OPEN,
    ]


def test_a_type_of_which_there_may_be_none_serves_nobody():
    assert refusal(CPU=1.0, gpu_t4=1.0) == [
        "arms.arm.resources.gpu_t4: asks for gpu_t4: 1, which only node type t4 (up to 0) offers, "
        "and the cluster may have none of that type",
        OPEN,
        "Raise its max_workers in the cluster's file, or remove the arm.",
    ]


def test_what_to_do_next_is_said_where_the_machines_suggest_nothing():
    with pytest.raises(UnmetPlacement) as caught:
        check({"arm": {"gpu_t4": 1.0}}, [HEAD], advice="name its node types with --cluster FILE")
    assert str(caught.value).endswith("name its node types with --cluster FILE")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_cluster_that_tells_no_node_types_gets_the_advice_to_name_them(place, cluster):
    grid = place.grid("arms:\n  east: {resources: {cpu_east: 1}}\n")
    done = place.ablate("launch", grid, "--address", cluster.address, env={"RAY_AUTH_MODE": "disabled"})
    assert done.code == 4, done.text
    assert "arms.east.resources.cpu_east: asks for cpu_east: 1, no node offers it" in done.words
    assert "If the cluster adds nodes, name the file that says which: --cluster FILE." in done.words
    assert not place.root().exists()
