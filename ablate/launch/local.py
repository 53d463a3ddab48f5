"""The local launcher: this machine's cores and GPUs, no Ray. The Ray launcher must agree with it."""

from __future__ import annotations

import contextlib
import os
import queue
import socket
import threading
from collections.abc import Mapping, Sequence

from ablate.cluster.node_types import NodeType
from ablate.design.trial_spec import Numerics
from ablate.launch.after import After, Then
from ablate.launch.placement import Node, this_machine
from ablate.launch.room import Room
from ablate.launch.waiting import Waiting
from ablate.trial.gang import shut
from ablate.trial.isolation import Isolation
from ablate.trial.local_workers import LocalWorkers
from ablate.trial.nvml import visible_gpus
from ablate.trial.task import TrialEnd, TrialTask
from ablate.trial.uploads import Uploading


class LocalLauncher:
    """Runs trials side by side as far as this machine's cores, GPUs and offered tags reach, in the order given."""

    def __init__(self, launch_id: str, offered: Mapping[str, float] | None = None) -> None:
        self._isolation = Uploading(LocalWorkers(Isolation(launch_id)))
        self._machine = this_machine(offered)

    def nodes(self) -> list[Node]:
        """Return this machine."""
        return [self._machine]

    def node_types(self) -> tuple[NodeType, ...]:
        """Return nothing: no machine can be added."""
        return ()

    if_unmet = ""

    def start(self, first: Numerics | None = None) -> None:
        """Nothing to start: fork servers come up with the first trial that needs them."""

    def close(self) -> None:
        """Let go of the fork servers."""
        self._isolation.close()

    def run(self, tasks: Sequence[TrialTask], after: After, waiting: Waiting | None = None) -> None:
        """Run every task, and what ``after`` wants in its place, which comes last; what this machine offers stays.

        Raises:
            AblateError: if no process for trials can be started.
        """
        room = Room(self._machine.resources, visible_gpus(os.environ))
        pending = list(tasks)
        running: dict[str, socket.socket | None] = {}
        ended: queue.Queue[tuple[TrialTask, TrialEnd | Exception]] = queue.Queue()
        stopped = threading.Event()

        def run_one(task: TrialTask) -> None:
            def started(connection: socket.socket) -> None:
                running[task.spec.trial_id] = connection
                if stopped.is_set():
                    shut(connection)

            try:
                ended.put((task, self._isolation.run(task, started)))
            except Exception as error:
                ended.put((task, error))

        try:
            while pending or running:
                for task in list(pending):
                    gpus = room.take(task.resources)
                    if gpus is None:
                        continue
                    pending.remove(task)
                    running[task.spec.trial_id] = None
                    placed = task.model_copy(update={"gpus": gpus})
                    threading.Thread(target=run_one, args=(placed,), daemon=True).start()
                task, end = _next(ended)
                del running[task.spec.trial_id]
                room.give_back(task.resources, task.gpus)
                if isinstance(end, Exception):
                    raise end
                then = after(task, end)
                if then is Then.STOP:
                    return
                if isinstance(then, TrialTask):
                    pending.append(then)
        finally:
            stopped.set()
            for connection in list(running.values()):
                if connection is not None:
                    shut(connection)


def _next(ended: queue.Queue[tuple[TrialTask, TrialEnd | Exception]]) -> tuple[TrialTask, TrialEnd | Exception]:
    while True:  # a bare get() would not let Ctrl-C through
        with contextlib.suppress(queue.Empty):
            return ended.get(timeout=0.2)
