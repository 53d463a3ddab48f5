"""What of this machine is free, and which of its GPUs a trial gets; with Ray, Ray decides this."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from ablate.trial.nvml import visible_gpus

UNIT = 10_000
"""Shares of a GPU are counted in ten thousandths, as Ray counts them: seven times 1/7 must fit into one."""


def gpus_for(request: Mapping[str, float]) -> tuple[str, ...]:
    """Return the GPUs for a trial that runs on this machine alone; empty if it asks for none or there are too few."""
    return Room({}, visible_gpus(os.environ)).take({"GPU": request.get("GPU", 0.0)}) or ()


class Room:
    """The free part of a machine.

    Args:
        resources: what it has; ``GPU`` is counted by ``gpus``.
        gpus: its GPUs, as entries of ``CUDA_VISIBLE_DEVICES``.
    """

    def __init__(self, resources: Mapping[str, float], gpus: Sequence[str]) -> None:
        self._free = {name: amount for name, amount in resources.items() if name != "GPU"}
        self._shares = dict.fromkeys(gpus, UNIT)

    def take(self, request: Mapping[str, float]) -> tuple[str, ...] | None:
        """Take what a trial asks for and return its GPUs (empty if it asks for none); None if there is no room now."""
        others = {name: amount for name, amount in request.items() if name != "GPU"}
        if any(self._free.get(name, 0.0) < amount for name, amount in others.items()):
            return None
        each, count = _split(request.get("GPU", 0.0))
        fitting = [gpu for gpu, free in self._shares.items() if free >= each]
        if len(fitting) < count:
            return None
        gpus = tuple(sorted(fitting, key=lambda gpu: -self._shares[gpu])[:count])  # the emptiest: they work in parallel
        for name, amount in others.items():
            self._free[name] -= amount
        for gpu in gpus:
            self._shares[gpu] -= each
        return gpus

    def give_back(self, request: Mapping[str, float], gpus: Sequence[str]) -> None:
        """Give back what a trial took."""
        each, _ = _split(request.get("GPU", 0.0))
        for name, amount in request.items():
            if name != "GPU":
                self._free[name] += amount
        for gpu in gpus:
            self._shares[gpu] += each


def _split(amount: float) -> tuple[int, int]:
    """Return the share of each GPU, and of how many."""
    if amount <= 0:
        return 0, 0
    return (int(amount * UNIT), 1) if amount < 1 else (UNIT, round(amount))
