"""Connects this process to a Ray cluster, or says within seconds why not."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ablate.launch.ray_token import shown

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.update(shown())

import ray

from ablate.errors import Problem, UnmetPlacement
from ablate.launch.job_server import connect


def reach(address: str, options: Mapping[str, Any]) -> None:
    """Connect to a cluster; Ray itself would try a dead address for two minutes and then end the process.

    Args:
        address: as ``ray.init`` takes it, such as ``HEAD:6379``.
        options: further arguments of ``ray.init``.

    Raises:
        UnmetPlacement: no cluster answers at the address.
    """
    try:
        connect(address)
        ray.init(address=address, **options)
    except (OSError, ValueError) as error:
        advice = "Is it up (`ray status`)? Without --address and RAY_ADDRESS an embedded Ray is started."
        raise UnmetPlacement(
            Problem(f"--address {address}", f"no Ray cluster answers: {error}", "", "", advice)
        ) from None
