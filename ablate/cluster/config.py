"""What is wrong with a cluster's configuration, found before a machine is paid for.

`ray up` has no dry run, and its own checks stop at the first fault, or find it on AWS after the head has started. Here
everything is looked at without a network: Ray's schema, and what that misses.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from ablate.cluster.aws import aws_problems
from ablate.cluster.cluster_file import ClusterFile, read_cluster_file
from ablate.cluster.kuberay import IDLE_SECONDS
from ablate.cluster.node_types import node_types_of
from ablate.cluster.parts import find, whole
from ablate.cluster.ray_schema import schema_problems
from ablate.design.validation import describe
from ablate.design.yaml_source import Loc
from ablate.errors import BadInput, Problem

POD_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
HOST_FLAGS = re.compile(r"ablate\.cluster\.host_flags ([^\s)]+)")
START_COMMANDS = ("head_start_ray_commands", "worker_start_ray_commands")


def check_cluster(path: Path) -> ClusterFile:
    """Read and check a `ray up` file, one for a lab's machines, or a KubeRay manifest.

    Arms that no node type serves are another matter: `ablate.launch.placement.check` names them.

    Raises:
        BadInput: naming everything that is wrong, each with its line and key path.
    """
    file = read_cluster_file(path)
    problems = [] if file.kind == "kuberay" else schema_problems(file)
    try:
        node_types_of(file)
    except BadInput as error:
        said = {problem.where for problem in problems}
        problems += [problem for problem in error.problems if problem.where not in said]
    problems += _KINDS[file.kind](file)
    if file.kind != "kuberay":
        problems += _mounts(file)
    if problems:
        raise BadInput(*problems)
    return file


def _ray_up(file: ClusterFile) -> Iterator[Problem]:
    types = {
        name: part for name, part in (find(file, ("available_node_types",)) or {}).items() if isinstance(part, dict)
    }
    least = {name: _count(part.get("min_workers", 0)) for name, part in types.items()}
    limit = find(file, ("max_workers",))
    if limit is None:
        found = "missing: Ray then allows 2 workers of all types together"
        yield file.problem(("max_workers",), found, advice="write how many the whole cluster may have")
    elif sum(least.values()) > _count(limit):
        found = f"is {limit}, less than the min_workers of all types together ({sum(least.values())})"
        yield file.problem(("max_workers",), found, advice="raise it, or lower min_workers")
    for name, part in types.items():
        most = part.get("max_workers", limit)
        if most is not None and least[name] > _count(most):
            yield _above(file, ("available_node_types", name), "min_workers", least[name], "max_workers", most)
    if find(file, ("provider", "type")) == "aws":
        yield from aws_problems(file, types)


def _on_premise(file: ClusterFile) -> Iterator[Problem]:
    for key in ("available_node_types", "head_node_type", "head_node", "worker_nodes"):
        if find(file, (key,)):
            found = "is refused by Ray for machines that are already there"
            yield file.problem((key,), found, advice="remove it, and write what each offers under metadata.hosts")
    for key in START_COMMANDS:
        commands = " ".join(str(command) for command in find(file, (key,)) or [])
        read = HOST_FLAGS.search(commands)
        if read is None:
            found = "does not ask `ablate.cluster.host_flags`, so that Ray never learns metadata.hosts"
            yield file.problem((key,), found, advice="take over the command of configs/cluster/onprem.yaml")
        elif not any(source.exists() and source.samefile(file.path) for source in _mounted_at(file, read[1])):
            found = f"reads {read[1]} on each machine, where this file is not mounted"
            yield file.problem((key,), found, advice=f"add `{read[1]}: {file.path}` to file_mounts")


def _mounted_at(file: ClusterFile, target: str) -> list[Path]:
    """Return what may be at a path on a node: by the last mount of it or of a folder above it."""
    mounts = find(file, ("file_mounts",))
    found: list[Path] = []
    for place, source in mounts.items() if isinstance(mounts, dict) else ():
        if target == place or target.startswith(f"{place}/"):
            found = [path / target.removeprefix(place).lstrip("/") for path in _likely(file, str(source))]
    return found


def _likely(file: ClusterFile, source: str) -> list[Path]:
    """Return where `ray up` may find a source: it looks in the folder it is run in, taken to be this or one above."""
    return [folder / os.path.expanduser(source) for folder in (Path.cwd(), *file.path.resolve().parents)]


def _kuberay(file: ClusterFile) -> Iterator[Problem]:
    if find(file, ("spec", "enableInTreeAutoscaling")) is not True:
        found = "is not true: nothing would start more pods than `replicas`"
        yield file.problem(("spec", "enableInTreeAutoscaling"), found, "true")
    if not find(file, ("metadata", "namespace")):
        yield file.problem(("metadata", "namespace"), "missing", "the Kubernetes namespace, such as default")
    problems: list[Problem] = []
    whole(file, IDLE_SECONDS, problems, default=0)
    yield from problems
    yield from _start_parameters(file, ("spec", "headGroupSpec"))
    seen: set[str] = set()
    groups = find(file, ("spec", "workerGroupSpecs"))
    for position, group in enumerate(groups if isinstance(groups, list) else ()):
        here: Loc = ("spec", "workerGroupSpecs", position)
        if not isinstance(group, dict):
            continue
        yield from _start_parameters(file, here)
        name = str(group.get("groupName"))
        if not POD_NAME.fullmatch(name):
            found = f"{name!r} cannot be part of a pod's name"
            suggestion = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
            yield file.problem((*here, "groupName"), found, "a to z, 0 to 9 and hyphens inside", suggestion)
        if name in seen:
            yield file.problem((*here, "groupName"), f"{name} is another group's name too", advice="rename one")
        seen.add(name)
        least, most = _count(group.get("minReplicas")), _count(group.get("maxReplicas"))
        if least > most:
            yield _above(file, here, "minReplicas", least, "maxReplicas", most)


def _start_parameters(file: ClusterFile, here: Loc) -> Iterator[Problem]:
    parameters = find(file, (*here, "rayStartParams"))
    for key, value in parameters.items() if isinstance(parameters, dict) else ():
        if not isinstance(value, str):
            found = f"{describe(value)}, and Kubernetes takes text only"
            yield file.problem((*here, "rayStartParams", key), found, f'"{value}"')


def _mounts(file: ClusterFile) -> Iterator[Problem]:
    mounts = find(file, ("file_mounts",))
    for target, source in mounts.items() if isinstance(mounts, dict) else ():
        if not any(path.exists() for path in _likely(file, str(source))):
            advice = (
                f"`ray up` looks for it in the folder that it is run in; it is not in {Path.cwd()} or above the file"
            )
            yield file.problem(("file_mounts", target), f"{source} does not exist", advice=advice)


def _above(file: ClusterFile, here: Loc, low: str, least: object, high: str, most: object) -> Problem:
    return file.problem(
        (*here, low), f"{low} is {least}, above {high}, which is {most}", advice="raise one or lower one"
    )


def _count(value: object) -> int:
    """Return a count; 0 for what is none, which other checks complain about."""
    return value if isinstance(value, int) else 0


_KINDS = {"ray-up": _ray_up, "on-premise": _on_premise, "kuberay": _kuberay}
