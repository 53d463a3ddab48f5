"""The node types of a cluster's configuration: what one node of each offers, and how many there may be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ablate.cluster.cluster_file import ClusterFile, read_cluster_file
from ablate.cluster.hosts import hosts
from ablate.cluster.kuberay import groups
from ablate.cluster.parts import mapping, whole
from ablate.errors import BadInput, Problem, nearest

INSTANCE_KEYS = ("InstanceType", "machineType")
"""Where AWS and GCP name a machine's model, in a type's ``node_config``."""


@dataclass(frozen=True)
class NodeType:
    """A kind of node.

    Attributes:
        name: its name in the file; for a lab's machines the host.
        resources: what one such node offers: resource name -> amount. A head that runs no trials has ``CPU: 0``.
        min_workers: how many there are at least, the head itself included.
        max_workers: how many there are at most, the head itself included.
        instance: the cloud's name for the machine; None where there is no cloud, or it has another key for that.
        head: whether the head node is of this type.
    """

    name: str
    resources: Mapping[str, float]
    min_workers: int
    max_workers: int
    instance: str | None = None
    head: bool = False


def read_node_types(path: Path) -> tuple[NodeType, ...]:
    """Read the node types of a ``ray up`` file, of a lab's machines (one type a host), or of a KubeRay manifest.

    Raises:
        BadInput: the file cannot be read, or what it says of a node type is missing or wrong.
    """
    return node_types_of(read_cluster_file(path))


def node_types_of(file: ClusterFile) -> tuple[NodeType, ...]:
    """Return the node types of a file that was read.

    Raises:
        BadInput: what it says of a node type is missing or wrong.
    """
    if file.kind == "on-premise":
        return tuple(NodeType(host, offered, 1, 1, None, head) for host, offered, head in hosts(file))
    if file.kind == "kuberay":
        return tuple(
            NodeType(name, offered, least + head, most + head, None, head)
            for name, offered, least, most, head in groups(file)
        )
    problems: list[Problem] = []
    types = _types(file, problems)
    if problems:
        raise BadInput(*problems)
    return types


def most_workers(file: ClusterFile) -> int | None:
    """Return how many workers all types together may have, which Ray also caps; None where nothing caps them.

    A ``ray up`` file that says nothing gets Ray's own default for its provider, which is 2 on AWS.
    """
    return int(file.data.get("max_workers", 2)) if file.kind == "ray-up" else None


def _types(file: ClusterFile, problems: list[Problem]) -> tuple[NodeType, ...]:
    declared = mapping(file, ("available_node_types",), problems, "node types by name")
    head = file.data.get("head_node_type")
    if declared and head not in declared:
        names = ", ".join(declared)
        problems.append(
            file.problem(("head_node_type",), f"{head!r} is no node type", names, nearest(str(head), declared))
        )
    limit = whole(file, ("max_workers",), problems, default=2)
    return tuple(_type(file, name, limit, name == head, problems) for name in declared)


def _type(file: ClusterFile, name: str, limit: int, head: bool, problems: list[Problem]) -> NodeType:
    here = ("available_node_types", name)
    declared = mapping(file, here, problems, "resources, node_config, min_workers, max_workers")
    resources = mapping(file, (*here, "resources"), problems, "resource names with whole amounts")
    offered = {key: float(whole(file, (*here, "resources", key), problems)) for key in resources}
    if "CPU" not in offered and file.data["provider"]["type"] == "aws":
        found = "no CPU: Ray would ask AWS for it at `ray up`, so nothing can be planned before"
        problems.append(file.problem((*here, "resources"), found, advice="write the number of virtual cores"))
    config: Mapping[str, Any] = declared.get("node_config") or {}
    named = [str(config[key]) for key in INSTANCE_KEYS if key in config]
    least = whole(file, (*here, "min_workers"), problems, default=0)
    most = min(whole(file, (*here, "max_workers"), problems, default=limit), limit)
    return NodeType(name, offered, least + head, most + head, named[0] if named else None, head)
