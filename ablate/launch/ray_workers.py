"""Workers of a trial on a Ray cluster: a bundle of the trial's placement group each, on one node or on several.

The trial's own actor is in the first bundle and runs the first worker. It asks for an actor in every other bundle, and
that one asks its node's fork server for a process, as the first does. Ray ends these actors with the one that asked for
them, and a fork server ends a process whose actor is gone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ray
from ray.util.placement_group import PlacementGroup
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from ablate.launch.ray_code import on_node
from ablate.launch.ray_nonce import without_store
from ablate.remote.location import working_copy
from ablate.trial.gang import Gang, Started
from ablate.trial.isolation import Isolation
from ablate.trial.local_workers import LocalFollower
from ablate.trial.task import Rank, TrialEnd, TrialTask


def bundles(task: TrialTask) -> list[dict[str, float]]:
    """Return what a trial's placement group asks for: a bundle for each worker."""
    return [task.share] * task.workers


class RayWorkers:
    """Runs tasks on this node, and the further workers of one that has them wherever Ray placed their bundles.

    Args:
        isolation: makes this node's processes.
        launch_id: names the launch.

    Attributes:
        told: the task in hand as the launch told it, whose folders another node makes whole in its own way.
    """

    def __init__(self, isolation: Isolation, launch_id: str) -> None:
        self.told = ""
        self._isolation = isolation
        self._launch_id = launch_id
        self._actors: dict[int, Any] = {}

    def run(self, task: TrialTask, started: Started | None = None) -> TrialEnd:
        """Run a task to its end.

        Raises:
            AblateError: no process can be started.
        """
        if task.workers == 1:
            return self._isolation.run(task, started)
        group = ray.util.get_current_placement_group()
        if group is None:
            raise RuntimeError("a trial with several workers runs in a placement group")
        others = [self._follower(task, group, number) for number in range(1, task.workers)]
        return Gang(task, self._isolation, others, _address(), started).run()

    def close(self) -> None:
        """Let go of the fork servers, and of the actors that were asked for."""
        self._isolation.close()
        for actor in self._actors.values():
            with contextlib.suppress(ray.exceptions.RayError):
                ray.kill(actor)
        self._actors.clear()

    def _follower(self, task: TrialTask, group: PlacementGroup, number: int) -> _RayFollower:
        if number not in self._actors:
            share = dict(task.share)
            at = PlacementGroupSchedulingStrategy(placement_group=group, placement_group_bundle_index=number)
            options = {"num_cpus": share.pop("CPU", 0), "num_gpus": share.pop("GPU", 0), "resources": share}
            self._actors[number] = (
                ray.remote(_Worker)
                .options(scheduling_strategy=at, max_concurrency=2, **options)
                .remote(self._launch_id)
            )
        return _RayFollower(self._actors[number], self.told, lambda: self._actors.pop(number, None))


class _Worker:
    """Runs a further worker on its node."""

    def __init__(self, launch_id: str) -> None:
        self._isolation = Isolation(launch_id)
        self._folder = Path.cwd()
        self._follower: LocalFollower | None = None

    def run(self, told: str, rank: str) -> str:
        """Run it to its end; return how it ended."""
        follower = self._follower = LocalFollower(self._isolation)  # first, so that a kill reaches it from here on
        task = on_node(TrialTask.model_validate_json(told), self._folder)
        task = task.model_copy(update={"rank": Rank.model_validate_json(rank)})
        if refused := without_store(task):
            return refused.model_dump_json()
        if task.remote is not None:
            task = task.model_copy(update={"root": str(working_copy(task.remote))})
        if task.numerics.device == "cuda":
            task = task.model_copy(update={"gpus": tuple(ray.get_runtime_context().get_accelerator_ids()["GPU"])})
        return follower.run(task).model_dump_json()

    def kill(self) -> None:
        """End what runs."""
        if self._follower is not None:
            self._follower.kill()


def _address() -> str:
    return str(ray.util.get_node_ip_address())  # type: ignore[no-untyped-call]


class _RayFollower:
    """A further worker, seen from the trial's own actor.

    Args:
        actor: runs it.
        told: the task as the launch told it.
        forget: called when the actor is gone.
    """

    def __init__(self, actor: Any, told: str, forget: Callable[[], object]) -> None:
        self._actor = actor
        self._told = told
        self._forget = forget

    def run(self, task: TrialTask) -> TrialEnd:
        """Run it to its end; where its actor or its node is gone, that is its end."""
        assert task.rank is not None
        try:
            said = ray.get(self._actor.run.remote(self._told, task.rank.model_dump_json()))
        except ray.exceptions.RayError as error:
            self._forget()
            first = " ".join(str(error).split())[:300]
            return task.failed("infrastructure", f"its Ray actor failed: {first}")
        return TrialEnd.model_validate_json(said)

    def kill(self) -> None:
        """End it; an actor that is gone has done so."""
        with contextlib.suppress(ray.exceptions.RayError):
            ray.get(self._actor.kill.remote(), timeout=5)
