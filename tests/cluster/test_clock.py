"""A node whose clock is an hour off: nothing of a launch depends on clocks that agree."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.cluster.place import BATCHES, losses, rows_of, start, undisturbed
from tests.conftest import whole

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

TWO = "arms:\n  here: {resources: {here: 1}}\n  ahead: {resources: {ahead: 1}, settings: {at: 4}}\n"


def test_a_node_an_hour_ahead_and_one_an_hour_behind(place, cluster):
    cluster.add_node({"CPU": 1, "ahead": 1}, host="ahead", ahead_s=3600.0, wait=False)
    cluster.add_node({"CPU": 1, "here": 1}, host="behind", ahead_s=-3600.0, wait=False)
    for node in cluster.nodes:
        cluster.wait_for(node)
    # a trial takes 4 s or more, so that one that is judged by another's clock would be ended as hung at once
    done = place.finish(start(place, cluster, TWO, blocks=2, stall_minutes=0.5, checkpoint="{minutes: 0.01}"), 400)
    assert done.code == 0, done.text
    assert "tried again" not in done.words
    assert whole(place.root(), batches=BATCHES) == 4
    for row in rows_of(place).values():
        off = (row["started_utc"] - datetime.now(UTC)).total_seconds()
        assert 2800 < off < 3600 if row["host"] == "ahead" else -4400 < off < -3600  # the clocks were wrong indeed
        assert 0 < row["wall_s"] < 400

    beside = undisturbed(place)
    assert beside.code == 0, beside.text
    assert losses(place.root()) == losses(place.folder / "beside" / "doubles")
