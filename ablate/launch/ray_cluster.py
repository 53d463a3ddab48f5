"""What each node of a Ray cluster is: asks all of them at once. For ``ablate doctor --address``."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import ray

from ablate.launch.cluster_doctor import PROBE, NodeFacts, facts_of
from ablate.launch.ray_nodes import ask_all
from ablate.launch.ray_reach import reach
from ablate.trial.environment import NUMERIC_PREFIXES


def ask_nodes(address: str) -> list[NodeFacts]:
    """Connect to a cluster, ask every live node, and leave.

    Raises:
        UnmetPlacement: no cluster answers at the address.
    """
    reach(address, {"log_to_driver": False, "logging_level": logging.ERROR})
    try:
        answers = ask_all(_asker(PROBE, NUMERIC_PREFIXES))
    finally:
        ray.shutdown()
    found = []
    for answer in answers:
        printed, error = answer.value or ("", answer.error)
        found.append(facts_of(answer.host, answer.resources, printed, error))
    return found


def _asker(probe: str, dropped: Sequence[str]) -> Callable[[], tuple[str, str]]:
    def ask() -> tuple[str, str]:
        import os
        import subprocess
        import sys

        import ray

        numeric = (*dropped, "CUDA_VISIBLE_DEVICES")  # Ray hides all GPUs from a task that asks for none
        environment = {key: value for key, value in os.environ.items() if not key.startswith(numeric)}
        done = subprocess.run(
            [sys.executable, "-c", probe, ray.__version__], env=environment, capture_output=True, text=True, check=False
        )
        return done.stdout, (done.stderr.strip().splitlines() or [f"its probe ended with code {done.returncode}"])[-1]

    return ask
