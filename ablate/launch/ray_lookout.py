"""Shows trials that have no place yet, and the live nodes, to whoever says which of them wait in vain."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ray import tune
from ray.tune.experiment import Trial

from ablate.launch.placement import Node
from ablate.launch.ray_nodes import alive, named
from ablate.launch.waiting import Waiting
from ablate.trial.task import TrialTask

LOOK_S = 5.0
"""How often; a node counts as live until Ray misses it, some 25 s after its loss unless told otherwise."""


class Lookout(tune.Callback):
    """Looks while trials run.

    Args:
        tasks: every trial's, by its id.
        waiting: is shown what waits.
    """

    def __init__(self, tasks: Mapping[str, TrialTask], waiting: Waiting) -> None:
        self._tasks = tasks
        self._waiting = waiting
        self._looked = 0.0

    def __getstate__(self) -> dict[str, Any]:
        """Tune pickles its callbacks for a restore, which is never used."""
        return {}

    def on_step_end(self, iteration: int, trials: list[Any], **_: Any) -> None:
        """Look, unless it was done just now."""
        if time.monotonic() - self._looked >= LOOK_S:
            self._looked = time.monotonic()
            pending = [self._tasks[one.config["trial"]["id"]] for one in trials if one.status == Trial.PENDING]
            asking = [(task.spec.arm, task.share) for task in pending]  # workers may be on several nodes
            self._waiting.look(asking, [Node(*named(node)) for node in alive()], self._looked)
