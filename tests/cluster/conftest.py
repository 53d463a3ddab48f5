"""Small clusters for tests; they are the tests' own and end with them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.small_cluster import Cluster


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A head that runs no trials; the test adds nodes."""
    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def two_nodes(cluster: Cluster) -> Cluster:
    """A head that runs no trials, and two nodes of one core, ``east`` and ``west``, each with a tag of its name."""
    for node in [cluster.add_node({"CPU": 1, name: 1}, host=name, wait=False) for name in ("east", "west")]:
        cluster.wait_for(node)
    return cluster
