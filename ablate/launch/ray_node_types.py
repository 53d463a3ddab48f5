"""The node types of the cluster that this process is connected to, as its autoscaler was told them.

Ray keeps no node types where a driver could ask for them. Its autoscaler is a process on the head node that was started
with a file, so a task on the head reads that: of `ray up` and `ray start --autoscaling-config`. Under KubeRay the
autoscaler has a container of its own, which a task does not see.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import ray

from ablate.cluster.node_types import NodeType, read_node_types
from ablate.errors import BadInput
from ablate.launch.ray_nodes import HEAD, alive, ask_all

ANSWER_S = 15.0
"""How long the head may take to answer. A worker starts in 1 to 3 s."""


def autoscaled_types() -> tuple[NodeType, ...]:
    """Return the node types, without the head's own; none if the cluster does not scale, or they cannot be seen."""
    heads = [node for node in alive() if HEAD in node["Resources"]]
    port = str(ray.get_runtime_context().gcs_address).rpartition(":")[2]
    text = "".join(answer.value or "" for answer in ask_all(_task(), port, nodes=heads, timeout_s=ANSWER_S))
    with tempfile.TemporaryDirectory(prefix="ablate-types-") as folder:
        copy = Path(folder) / "cluster.yaml"
        copy.write_text(text, encoding="utf-8")
        try:
            return tuple(one for one in read_node_types(copy) if not one.head)
        except BadInput:
            return ()


def _task() -> Callable[[str], str]:
    """Return the head's task, made here so that it travels by value: the head may have no ablate."""

    def read_autoscalers_file(port: str) -> str:
        from glob import glob
        from os.path import expanduser

        option = "--autoscaling-config="
        for path in glob("/proc/[0-9]*/cmdline"):
            try:
                with open(path, "rb") as file:
                    words = file.read().decode(errors="replace").split("\0")
                gcs = [word for word in words if word.startswith("--gcs-address=")]
                config = [word for word in words if word.startswith(option)]
                if config and gcs and gcs[0].rpartition(":")[2] == port:
                    with open(expanduser(config[0][len(option) :]), encoding="utf-8") as file:
                        return file.read()
            except OSError:  # it ended meanwhile, or is another user's
                continue
        return ""

    return read_autoscalers_file
