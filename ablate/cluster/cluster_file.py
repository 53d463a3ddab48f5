"""A cluster's configuration file as Ray or kubectl reads it, with the line of every key.

Unlike a grid, it is read by YAML 1.1's own rules: what counts is what Ray will see. Only a key that stands twice is
refused, since Ray would silently drop the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml

from ablate.design.yaml_source import Loc, dotted
from ablate.design.yaml_text import compose
from ablate.errors import BadInput, Problem

Kind = Literal["ray-up", "on-premise", "kuberay"]

KINDS = (
    "a `ray up` file (`provider:` and `available_node_types:`), one for a lab's machines (`provider: {type: local}`), "
    "or a KubeRay manifest (`kind: RayCluster`)"
)


@dataclass(frozen=True)
class ClusterFile:
    """A file that was read.

    Attributes:
        path: the file, as the user named it.
        data: its top-level mapping, as PyYAML's safe loader gives it.
        lines: line (from 1) of each key path.
        kind: which of the three kinds it is.
    """

    path: Path
    data: dict[str, Any]
    lines: Mapping[Loc, int]
    kind: Kind

    def where(self, loc: Loc) -> str:
        """Return ``cluster.yaml:12: provider.region``; a path not in the file gets the line of its nearest parent."""
        for length in range(len(loc), 0, -1):
            if loc[:length] in self.lines:
                return f"{self.path}:{self.lines[loc[:length]]}: {dotted(loc)}"
        return f"{self.path}:1: {dotted(loc)}"

    def problem(self, loc: Loc, found: str, allowed: str = "", close: str = "", advice: str = "") -> Problem:
        """Return a problem at a key path."""
        return Problem(self.where(loc), found, allowed, close, advice)


def read_cluster_file(path: Path) -> ClusterFile:
    """Read a cluster's configuration.

    Raises:
        BadInput: the file is missing, unreadable, not YAML, has a key twice, or is no cluster's configuration.
    """
    if path.is_dir():
        raise BadInput(Problem(str(path), "a folder, not a file", KINDS))
    root = compose(path)
    if not isinstance(root, yaml.MappingNode):
        raise BadInput(Problem(str(path), "holds no cluster's configuration", KINDS))
    lines: dict[Loc, int] = {}
    problems = [
        Problem(
            f"{path}:{line}: {dotted(loc)}", f"the key stands here and in line {first}", advice="remove one of them"
        )
        for loc, line, first in _walk(root, (), lines, set())
    ]
    try:
        data = yaml.SafeLoader("").construct_document(root)
    except (yaml.YAMLError, ValueError) as error:
        raise BadInput(Problem(str(path), f"not what Ray can read: {' '.join(str(error).split())}")) from None
    if problems:
        raise BadInput(*problems)
    return ClusterFile(path, data, lines, _kind(path, data, lines))


def _kind(path: Path, data: Mapping[str, Any], lines: Mapping[Loc, int]) -> Kind:
    if data.get("kind") == "RayCluster":
        return "kuberay"
    provider = data.get("provider")
    if isinstance(provider, dict) and isinstance(provider.get("type"), str):
        return "on-premise" if provider["type"] == "local" else "ray-up"
    found = "no `provider` with a `type`"
    if "kind" in data:
        found = f"the kind is {data['kind']}"
    elif {"arms", "trainable"} & data.keys():
        found = "a grid, not a cluster's configuration"
    raise BadInput(Problem(f"{path}:{lines.get(('provider',), lines.get(('kind',), 1))}", found, KINDS))


def _walk(node: yaml.Node, loc: Loc, lines: dict[Loc, int], open_nodes: set[int]) -> list[tuple[Loc, int, int]]:
    """Note the line of every key path; return what stands twice as (key path, its line, the first one's line)."""
    if id(node) in open_nodes or isinstance(node, yaml.ScalarNode):
        return []
    twice: list[tuple[Loc, int, int]] = []
    parts: list[tuple[str | int, yaml.Node, yaml.Node]] = []
    if isinstance(node, yaml.MappingNode):
        parts = [(str(key.value), key, value) for key, value in node.value]
    elif isinstance(node, yaml.SequenceNode):
        parts = [(position, item, item) for position, item in enumerate(node.value)]
    seen: dict[str | int, int] = {}
    for name, at, value in parts:
        here, line = (*loc, name), at.start_mark.line + 1
        if name in seen and name != "<<":
            twice.append((here, line, seen[name]))
        seen.setdefault(name, line)
        lines.setdefault(here, line)
        twice += _walk(value, here, lines, open_nodes | {id(node)})
    return twice
