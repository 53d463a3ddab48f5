"""What ``--cluster FILE`` says a cluster can add, and a cap on what leaves it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ablate.cluster.node_types import NodeType, read_node_types
from ablate.errors import BadInput, Problem

ALLOWED = "--address, without --local"


def node_types(cluster: Path | None, address: str | None) -> tuple[NodeType, ...]:
    """Return what a running cluster can add, by its file; nothing without one.

    Args:
        cluster: the file.
        address: where the cluster runs that is launched on; None without one.

    Raises:
        BadInput: a file that cannot be read, or one without a cluster to launch on.
    """
    if cluster is None:
        return ()
    if not address:
        advice = "`ablate plan GRID --cluster FILE` needs no cluster"
        raise BadInput(Problem(f"--cluster {cluster}", "says what a running cluster can add", ALLOWED, "", advice))
    return tuple(one for one in read_node_types(cluster) if not one.head)


def most_cores(types: Sequence[NodeType]) -> int | None:
    """Return the most cores a trial could use on one node; None without node types."""
    return max((int(one.resources.get("CPU", 0)) for one in types), default=0) or None


def check_cap(leave_at_once: int | None, address: str | None) -> None:
    """Check that a cap on how many nodes leave at once has a cluster to hold for.

    Raises:
        BadInput: it has none.
    """
    if leave_at_once is not None and not address:
        raise BadInput(Problem(f"--leave-at-once {leave_at_once}", "without a cluster no node leaves", ALLOWED))
