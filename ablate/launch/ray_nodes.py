"""The live nodes of the cluster that this process is connected to, and one tiny task on each, by its id."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

ANSWER_S = 60.0
"""How long all nodes together may take to answer. A worker starts in 1 to 3 s; torch's import comes on top."""

NOT_TAGS = ("node:", "object_store_memory", "memory", "accelerator_type:")
"""Ray's own entries among a node's resources."""

HEAD = "node:__internal_head__"
"""The one of these that marks the head."""


@dataclass(frozen=True)
class Answer:
    """What one node said.

    Attributes:
        host: its name.
        resources: cores, GPUs and tags that it offers, with amounts.
        value: what the task returned; None if it failed.
        error: why it failed; empty if it did not.
        node: its id.
    """

    host: str
    resources: dict[str, float]
    value: Any = None
    error: str = ""
    node: str = ""


def alive() -> list[dict[str, Any]]:
    """Return the live nodes, as Ray describes them."""
    return [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]


def named(node: dict[str, Any]) -> tuple[str, dict[str, float]]:
    """Return a node's host, and the cores, GPUs and tags that it offers."""
    return node["NodeManagerHostname"], {k: v for k, v in node["Resources"].items() if not k.startswith(NOT_TAGS)}


def ask_all(
    task: Callable[..., Any],
    *arguments: Any,
    nodes: Sequence[dict[str, Any]] | None = None,
    timeout_s: float = ANSWER_S,
) -> list[Answer]:
    """Run ``task`` once on every node, side by side; it takes no core, so a busy node answers too.

    Args:
        task: a function defined inside another one, so that it travels by value and a node without ablate can run it.
        arguments: of the task.
        nodes: some of those that are ``alive``; None for all of them.
        timeout_s: for all nodes together.
    """
    remote = ray.remote(num_cpus=0, max_retries=0)(task)
    asked = {
        remote.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)).remote(
            *arguments
        ): node
        for node in (alive() if nodes is None else nodes)
    }
    ready, late = ray.wait(list(asked), num_returns=len(asked), timeout=timeout_s) if asked else ([], [])
    for reference in late:
        ray.cancel(reference, force=True)
    answers = {reference: _answer(asked[reference], reference) for reference in ready}
    answers |= {
        reference: Answer(
            *named(asked[reference]), error=f"no answer in {timeout_s:g} s", node=asked[reference]["NodeID"]
        )
        for reference in late
    }
    return sorted(answers.values(), key=lambda answer: answer.host)


def _answer(node: dict[str, Any], reference: Any) -> Answer:
    try:
        return Answer(*named(node), value=ray.get(reference), node=node["NodeID"])
    except ray.exceptions.RayError as error:
        said = (str(error).strip().splitlines() or [type(error).__name__])[-1]
        return Answer(*named(node), error=said, node=node["NodeID"])
