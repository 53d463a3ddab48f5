"""A cluster that asks for Ray's token, as one started on a machine where Ray has run before does."""

from __future__ import annotations

import pytest

from tests.cluster.small_cluster import Cluster
from tests.conftest import whole

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


def test_a_launch_shows_the_token_of_its_user(place):
    with Cluster({"CPU": 1}, token=True) as cluster:
        place.grid("arms: {one: {}}\n", blocks=2)
        words = ("launch", "grid.yaml", "--address", cluster.address)
        done = place.ablate(*words, env={"HOME": str(cluster.home)})
        assert done.code == 0, done.text
        assert whole(place.root()) == 2
