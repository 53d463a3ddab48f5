"""What `ray up` finds out about AWS node types only from AWS: instance types, parameters, images for another processor.

botocore, which `ray up` needs for AWS anyway, carries the names in its description of EC2. Without it an instance
type is held against their pattern only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from ablate.cluster.cluster_file import ClusterFile
from ablate.design.yaml_source import Loc
from ablate.errors import Problem, nearest

ARM = re.compile(r"(a1|[a-z]+\d+g[a-z]*|[a-z0-9]+-gb\d+)\.")
"""Families with ARM processors: a g after the generation (m7g, c7gn, g5g, t4g), the first of them, and Grace.

Held against AWS's own description of 1187 types in the tests.
"""
PATTERN = re.compile(r"[a-z][a-z0-9-]*\d[a-z0-9-]*\.[a-z0-9-]+")


def aws_problems(file: ClusterFile, types: Mapping[str, Mapping[str, Any]]) -> Iterator[Problem]:
    """Yield what is wrong in the node types' ``node_config``.

    Args:
        file: the file.
        types: its ``available_node_types``.
    """
    instance_types, parameters = _known()
    for name, part in types.items():
        here: Loc = ("available_node_types", name, "node_config")
        config = part.get("node_config")
        if not isinstance(config, dict):
            continue
        for key in config if parameters else ():
            if key not in parameters:
                yield file.problem(
                    (*here, key), "no parameter of EC2's RunInstances", "", nearest(str(key), parameters)
                )
        instance = config.get("InstanceType")
        if instance is None:
            if "LaunchTemplate" not in config:
                yield file.problem((*here, "InstanceType"), "missing", "an instance type, such as m7i.xlarge")
            continue
        yield from _instance(file, (*here, "InstanceType"), str(instance), instance_types)
        yield from _image(file, (*here, "ImageId"), str(instance), config.get("ImageId"))


def _instance(file: ClusterFile, loc: Loc, instance: str, known: frozenset[str]) -> Iterator[Problem]:
    if instance in known or (not known and PATTERN.fullmatch(instance)):
        return
    size = instance.partition(".")[2]
    same_size = {other for other in known if other.partition(".")[2] == size}
    allowed = "" if known else "FAMILY.SIZE, such as m7i.xlarge; with botocore installed names are checked one by one"
    yield file.problem(
        loc, f"{instance} is no instance type of AWS", allowed, nearest(instance, same_size) or nearest(instance, known)
    )


def _image(file: ClusterFile, loc: Loc, instance: str, image: object) -> Iterator[Problem]:
    if image in (None, "", "latest_dlami"):  # Ray's words for its own choice
        if ARM.match(instance):
            found = f"left to Ray, whose own image is for x86, and {instance} has an ARM processor"
            yield file.problem(loc, found, advice="name an image for arm64, as cluster.yaml does for Graviton")
        return
    named = "arm64" if re.search(r"arm64|aarch64", str(image)) else "x86"
    if named == "x86" and not re.search(r"amd64|x86_64", str(image)):
        return  # an image's own name (ami-...) says nothing of it
    needed = "arm64" if ARM.match(instance) else "x86"
    if named != needed:
        yield file.problem(loc, f"an image for {named}, and {instance} has {needed} processors; it would not start")


@lru_cache(maxsize=1)
def _known() -> tuple[frozenset[str], frozenset[str]]:
    """Return all instance types and all parameters of RunInstances; nothing of either without botocore."""
    if find_spec("botocore") is None:
        return frozenset(), frozenset()
    shapes = import_module("botocore.loaders").Loader().load_service_model("ec2", "service-2")["shapes"]
    parameters = {*shapes["RunInstancesRequest"]["members"], "SubnetIds"}  # of which Ray picks one
    return frozenset(shapes["InstanceType"]["enum"]), frozenset(parameters)
