"""The Ray launcher, and the only module that imports ray: Tune places trials, each runs in a process of its own.

Ray sees a trial's id, its state and how it ended; batch losses never pass through it. Actors are reused between
trials, processes never are: an actor only asks this node's fork server for one.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import tempfile
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ablate.launch.ray_token import shown

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.update(shown())
os.environ["TUNE_DISABLE_AUTO_CALLBACK_LOGGERS"] = "1"  # its three log files: 85 ms a trial and 950 B a row
os.environ["TUNE_DISABLE_SIGINT_HANDLER"] = "1"  # it would swallow Ctrl-C and exit 0
os.environ["RAY_TRAIN_ENABLE_V2_MIGRATION_WARNINGS"] = "0"
os.environ["RAY_AIR_NEW_OUTPUT"] = "0"  # the new output prints a box even when silent
os.environ["RAY_CHDIR_TO_TRIAL_DIR"] = "0"
os.environ["TUNE_GLOBAL_CHECKPOINT_S"] = "inf"  # what it would restore from: written once, and at the end
os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"

import ray
from ray import tune
from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler

from ablate.launch.after import After, Then
from ablate.launch.pending import pending_limit
from ablate.launch.placement import Node, available_cores
from ablate.launch.ray_code import Code, on_node, relative
from ablate.launch.ray_leftovers import raylets_own, watch
from ablate.launch.ray_listed import Listed, place_of
from ablate.launch.ray_lookout import Lookout
from ablate.launch.ray_memory import forget, keep_no_state
from ablate.launch.ray_nodes import alive, named
from ablate.launch.ray_nonce import without_store
from ablate.launch.ray_reach import reach
from ablate.launch.ray_scale_in import ScaleIn
from ablate.launch.ray_workers import RayWorkers, bundles
from ablate.launch.waiting import Waiting
from ablate.trial.isolation import Isolation
from ablate.trial.nvml import visible_gpus
from ablate.trial.task import TrialEnd, TrialTask
from ablate.trial.uploads import Uploading

logging.getLogger("ray.tune").setLevel(logging.CRITICAL)  # every failure reaches the user through the study, once
with contextlib.suppress(ImportError):  # a Ray without it needs no mending
    from ray.air._internal import usage

    usage.tag_callbacks = lambda callbacks: False  # its statistics import wandb and mlflow where installed: 1.2 s

IN_A_JOB = "RAY_JOB_CONFIG_JSON_ENV_VAR"
"""Set by Ray in a launch that was submitted as a job."""


class TrialActor(tune.Trainable):
    """A reusable actor: each step runs one whole trial elsewhere on its node and reports how it ended, once."""

    def setup(self, config: dict[str, Any], launch_id: str = "", tasks: Mapping[str, str] | None = None) -> None:
        """Keep the launch's tasks; the fork servers are reached when first needed."""
        self._workers = RayWorkers(Isolation(launch_id), launch_id)
        self._isolation = Uploading(self._workers)
        self._tasks = tasks or {}
        self._folder = Path.cwd()  # on a cluster where Ray unpacked the user's code

    def step(self) -> dict[str, Any]:
        """Run the trial named by the configuration."""
        told = self._workers.told = self.config.get("task") or self._tasks[self.config["trial"]["id"]]
        task = on_node(TrialTask.model_validate_json(told), self._folder)
        if refused := without_store(task):
            return {"end": refused.model_dump_json(), "done": True}
        if task.numerics.device == "cuda":
            assigned = ray.get_runtime_context().get_accelerator_ids()["GPU"]  # what Ray says wins
            task = task.model_copy(update={"gpus": tuple(assigned)})
        return {"end": self._isolation.run(task).model_dump_json(), "done": True}

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Take over another trial."""
        self.config = new_config
        return True

    def cleanup(self) -> None:
        """Let go of the fork servers."""
        self._isolation.close()


class _Order(FIFOScheduler):
    """First come, first served; keeps hold of Tune's controller, to which trials may be added at any time.

    Tune's own retries are not used: they know no attempts, may not be told which failures to retry, and wait for ever
    where a reused actor turns out to be dead.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._controller: Any = None
        self._to_come: dict[Any, deque[tuple[int, Any]]] = {}  # by place, numbered; some may run or have ended since
        self._added = 0

    def __getstate__(self) -> dict[str, Any]:
        return {}

    def on_trial_add(self, tune_controller: Any, trial: Any) -> None:
        """Remember the controller, and the trial."""
        if self._controller is None:
            self._controller = tune_controller._tune_controller  # it comes in a wrapper
            keep_no_state(self._controller)
        self._added += 1
        self._to_come.setdefault(trial.placement_group_factory, deque()).append((self._added, trial))

    def choose_trial_to_run(self, tune_controller: Any) -> Any:
        """Return the first trial to come that has no actor of its own starting, one for a free actor before others.

        A free actor takes this trial over, and Tune ends the actor that was asked for it. Were that one about to start,
        trials shorter than an actor's start (2 s) would end one actor after the other, and leave all but one core idle.
        """
        free = self._controller._actor_cache
        firsts = {place: first for place, trials in self._to_come.items() if (first := self._first(trials))}
        served = [first for place, first in firsts.items() if free.has_cached_object(place)]
        return min(served or firsts.values(), default=(0, None))[1]  # no two have the same number

    def _first(self, trials: deque[tuple[int, Any]]) -> tuple[int, Any] | None:
        while trials and trials[0][1].status != Trial.PENDING:
            trials.popleft()
        return next((one for one in trials if one[1].status == Trial.PENDING and not self._starts(one[1])), None)

    def _starts(self, trial: Any) -> bool:
        actor = self._controller._trial_to_actor.get(trial)
        return actor is not None and self._controller._actor_manager.is_actor_started(actor)

    def again(self, trial: Any, task: TrialTask) -> None:
        """Queue another attempt at a trial; which node it runs on is Ray's choice."""
        another = trial.reset()
        another.set_config({**trial.config, "task": task.model_dump_json()})
        self._controller.add_trial(another)


class _Listener(tune.Callback):
    """Tells the study of every trial that ended, whether its actor reported it or died."""

    def __init__(self, tasks: Mapping[str, TrialTask], after: After, order: _Order) -> None:
        self._tasks = dict(tasks)
        self._after = after
        self._order = order
        self.stop = False
        self.failure: Exception | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Tune pickles its set-up for a restore, which is never used: the store is what a launch resumes from."""
        return {}

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        """Pass on how a trial ended; one that Tune itself cut short has no result."""
        if "end" in trial.last_result:
            self._tell(trial, TrialEnd.model_validate_json(trial.last_result["end"]))
        forget(trial)

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        """Pass on that a trial's actor died."""
        lines = str(trial.get_pickled_error() or trial.get_error() or "its actor died").strip().splitlines()
        words = "its Ray actor failed: " + "\n".join(lines[-4:])
        self._tell(trial, self._task(trial).failed("infrastructure", words))

    def _tell(self, trial: Any, end: TrialEnd) -> None:
        try:
            then = self._after(self._task(trial), end)
            if isinstance(then, TrialTask):
                self._tasks[then.spec.trial_id] = then
                self._order.again(trial, then)
            self.stop = self.stop or then is Then.STOP
        except Exception as error:  # Tune would log it and go on
            self.failure, self.stop = error, True

    def _task(self, trial: Any) -> TrialTask:
        return self._tasks[trial.config["trial"]["id"]]


class _Stopper(tune.Stopper):
    def __init__(self, listener: _Listener) -> None:
        self._listener = listener

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

    def stop_all(self) -> bool:
        return self._listener.stop


class TuneLauncher:
    """Runs trials by Ray Tune on an embedded local Ray, or on the cluster at ``address``."""

    def __init__(
        self,
        launch_id: str,
        address: str | None = None,
        offered: Mapping[str, float] | None = None,
        code: Code | None = None,
        leave_at_once: int | None = None,
    ) -> None:
        self._launch_id = launch_id
        self._leave_at_once = leave_at_once
        self._address = address
        self._offered = dict(offered or {})
        self._code = code
        self._watch: subprocess.Popen[bytes] | None = None

    def nodes(self) -> list[Node]:
        """Return the live nodes of the cluster, which it reaches for that."""
        self.start()
        return [Node(*named(node)) for node in alive()]

    def start(self) -> None:
        """Start an embedded Ray, or reach the cluster.

        Raises:
            UnmetPlacement: no cluster answers at the address.
        """
        if ray.is_initialized():
            return
        on_sigterm = signal.getsignal(signal.SIGTERM)
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        if self._address:
            if self._code and IN_A_JOB not in os.environ:  # a job's own code is there already
                options["runtime_env"] = self._code.runtime_env
            reach(self._address, options)
        else:
            gpus = len(visible_gpus(os.environ))
            options |= {"num_cpus": available_cores(), "num_gpus": gpus, "resources": self._offered}
            ray.init(address="local", include_dashboard=False, **options)
            self._watch = watch(raylets_own())
        signal.signal(
            signal.SIGTERM, on_sigterm
        )  # Ray's own handler would end the process with code 1 and a stack dump

    def run(self, tasks: Sequence[TrialTask], after: After, waiting: Waiting | None = None) -> None:
        """Run every task and what ``after`` wants in its place, in order as far as resources allow; start first."""
        by_id = {task.spec.trial_id: relative(task, self._code) if self._code else task for task in tasks}
        order = _Order()
        listener = _Listener(by_id, after, order)
        actor = tune.with_parameters(
            TrialActor, launch_id=self._launch_id, tasks={key: task.model_dump_json() for key, task in by_id.items()}
        )
        placed = tune.with_resources(actor, place_of)  # unpickled several times a trial, with all that it holds
        callbacks: list[tune.Callback] = [listener]
        callbacks += [ScaleIn(self._leave_at_once)] if self._leave_at_once else []
        callbacks += [Lookout(by_id, waiting)] if waiting else []
        requests = [task.resources for task in tasks]
        os.environ["TUNE_MAX_PENDING_TRIALS_PG"] = str(pending_limit(requests, bool(self._address)))
        with tempfile.TemporaryDirectory(prefix="ablate-tune-") as storage:
            tuner = tune.Tuner(
                placed,
                tune_config=tune.TuneConfig(
                    search_alg=Listed([{"id": key, "bundles": bundles(task)} for key, task in by_id.items()]),
                    reuse_actors=True,
                    scheduler=order,
                    trial_dirname_creator=_id_of,
                    trial_name_creator=_id_of,
                ),
                run_config=tune.RunConfig(
                    storage_path=storage,
                    name="trials",
                    verbose=0,
                    callbacks=callbacks,
                    stop=_Stopper(listener),
                    checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
                ),
            )
            with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
                tuner.fit()  # where a node dies, a thread of Ray's prints its log; what it means, the study says
        if listener.failure:
            raise listener.failure

    def close(self) -> None:
        """Leave Ray; an embedded one ends with everything it started."""
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
            ray.shutdown()  # it prints what it had kept back
        if self._watch:
            self._watch.terminate()
            self._watch.communicate()
            self._watch = None


def _id_of(trial: Any) -> str:
    return str(trial.config["trial"]["id"])
