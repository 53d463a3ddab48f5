"""Where a trial's workers fit: together on one machine, or spread over several."""

from __future__ import annotations

import pytest

from ablate.cluster.node_types import NodeType
from ablate.errors import UnmetPlacement
from ablate.launch.placement import Node, check, unmet

TWO = [Node("west", {"CPU": 2.0}), Node("east", {"CPU": 3.0})]


@pytest.mark.parametrize(
    ("workers", "cores", "fits"), [(2, 4.0, True), (4, 4.0, True), (5, 5.0, True), (2, 6.0, False)]
)
def test_workers_may_be_on_several_nodes(workers: int, cores: float, fits: bool) -> None:
    assert unmet({"shared": {"CPU": cores}}, TWO, {"shared": workers}) == ([] if fits else ["shared"])


def test_one_worker_may_not() -> None:
    assert unmet({"wide": {"CPU": 4.0}}, TWO) == ["wide"]


def test_too_little_room_is_said_with_how_many_would_fit() -> None:
    with pytest.raises(UnmetPlacement) as caught:
        check({"shared": {"CPU": 8.0}}, TWO, workers={"shared": 4})
    assert str(caught.value) == (
        "arms.shared.workers: asks for 4 workers, and there is room for 2 at once\n"
        "    allowed: west: CPU 2; east: CPU 3\n"
        "    Write `workers: 2`, or add machines."
    )


def test_a_share_that_fits_nowhere_is_said_as_one_workers_need() -> None:
    with pytest.raises(UnmetPlacement) as caught:
        check({"shared": {"CPU": 8.0}}, TWO, workers={"shared": 2})
    assert "arms.shared.resources.CPU: asks for CPU: 4, the most on one node is 3" in str(caught.value)


def test_nodes_that_the_cluster_may_add_count() -> None:
    kind = NodeType("worker", {"CPU": 2.0}, 0, 3)
    check({"shared": {"CPU": 6.0}}, [], node_types=[kind], workers={"shared": 3})
    with pytest.raises(UnmetPlacement):
        check({"shared": {"CPU": 8.0}}, [], node_types=[kind], workers={"shared": 4})
