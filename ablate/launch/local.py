"""The local launcher: this machine's cores, no Ray. It is the reference that the Ray launcher must agree with."""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
from collections.abc import Callable, Mapping, Sequence

from ablate.launch.placement import Node, this_machine
from ablate.trial.isolation import Isolation
from ablate.trial.task import TrialEnd, TrialTask

Finished = Callable[[TrialTask, TrialEnd], bool]
"""Told of each attempt that ended; returns whether to go on. What still runs is ended when it says no."""


class LocalLauncher:
    """Runs trials side by side as far as this machine's cores reach, in the order given."""

    def __init__(self, launch_id: str) -> None:
        self._isolation = Isolation(launch_id)

    def nodes(self) -> list[Node]:
        """Return this machine."""
        return [this_machine()]

    def start(self) -> None:
        """Nothing to start: fork servers come up with the first trial that needs them."""

    def close(self) -> None:
        """Let go of the fork servers."""
        self._isolation.close()

    def run(self, tasks: Sequence[TrialTask], finished: Finished) -> None:
        """Run every task once.

        Raises:
            AblateError: if no process for trials can be started.
        """
        free = dict(this_machine().resources)
        pending = list(tasks)
        running: dict[str, socket.socket | None] = {}
        ended: queue.Queue[tuple[TrialTask, TrialEnd | Exception]] = queue.Queue()

        def run_one(task: TrialTask) -> None:
            def started(connection: socket.socket) -> None:
                running[task.spec.trial_id] = connection

            try:
                ended.put((task, self._isolation.run(task, started)))
            except Exception as error:
                ended.put((task, error))

        try:
            while pending or running:
                for task in [task for task in pending if _take(free, task.spec.resources)]:
                    pending.remove(task)
                    running[task.spec.trial_id] = None
                    threading.Thread(target=run_one, args=(task,), daemon=True).start()
                task, end = _next(ended)
                del running[task.spec.trial_id]
                _give_back(free, task.spec.resources)
                if isinstance(end, Exception):
                    raise end
                if not finished(task, end):
                    return
        finally:
            for connection in running.values():
                if connection is not None:
                    with contextlib.suppress(OSError):
                        connection.shutdown(socket.SHUT_RDWR)  # its server kills the trial


def _next(ended: queue.Queue[tuple[TrialTask, TrialEnd | Exception]]) -> tuple[TrialTask, TrialEnd | Exception]:
    while True:  # a bare get() would not let Ctrl-C through
        with contextlib.suppress(queue.Empty):
            return ended.get(timeout=0.2)


def _take(free: dict[str, float], request: Mapping[str, float]) -> bool:
    if any(free.get(name, 0.0) < amount for name, amount in request.items()):
        return False
    for name, amount in request.items():
        free[name] -= amount
    return True


def _give_back(free: dict[str, float], request: Mapping[str, float]) -> None:
    for name, amount in request.items():
        free[name] += amount
