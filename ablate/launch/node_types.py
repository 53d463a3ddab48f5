"""What ``--cluster FILE`` says a cluster can add."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ablate.cluster.node_types import NodeType, read_node_types
from ablate.errors import BadInput, Problem


def node_types(cluster: Path | None, address: str | None) -> tuple[NodeType, ...]:
    """Return what a running cluster can add, by its file; nothing without one.

    Args:
        cluster: the file.
        address: where the cluster runs.

    Raises:
        BadInput: a file that cannot be read, or one without a cluster to launch on.
    """
    if cluster is None:
        return ()
    if not address:
        advice = "`ablate plan GRID --cluster FILE` needs no cluster"
        raise BadInput(Problem(f"--cluster {cluster}", "says what a running cluster can add", "--address", "", advice))
    return tuple(one for one in read_node_types(cluster) if not one.head)


def most_cores(types: Sequence[NodeType]) -> int | None:
    """Return the most cores a trial could use on one node; None without node types."""
    return max((int(one.resources.get("CPU", 0)) for one in types), default=0) or None
