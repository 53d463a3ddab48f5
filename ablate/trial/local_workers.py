"""Runs tasks on this machine, all workers of a trial on it."""

from __future__ import annotations

import socket
import threading

from ablate.trial.gang import Gang, Started, shut
from ablate.trial.isolation import Isolation
from ablate.trial.task import LOOPBACK, TrialEnd, TrialTask


class LocalWorkers:
    """Runs each task in a process of its own, or in as many as its arm has workers."""

    def __init__(self, isolation: Isolation) -> None:
        self._isolation = isolation

    def run(self, task: TrialTask, started: Started | None = None) -> TrialEnd:
        """Run a task to its end.

        Args:
            task: the attempt.
            started: told a connection; shutting it down from another thread kills the trial.

        Raises:
            AblateError: no process can be started.
        """
        if task.workers == 1:
            return self._isolation.run(task, started)
        others = [LocalFollower(self._isolation, _gpus(task, number)) for number in range(1, task.workers)]
        own = task.model_copy(update={"gpus": _gpus(task, 0)})
        return Gang(own, self._isolation, others, LOOPBACK, started).run()

    def close(self) -> None:
        """Let go of the fork servers."""
        self._isolation.close()


class LocalFollower:
    """A further worker on this machine.

    Args:
        isolation: makes its process.
        gpus: that it computes on; None for those of the task.
    """

    def __init__(self, isolation: Isolation, gpus: tuple[str, ...] | None = None) -> None:
        self._isolation = isolation
        self._gpus = gpus
        self._connection: socket.socket | None = None
        self._killed = False
        self._lock = threading.Lock()

    def run(self, task: TrialTask) -> TrialEnd:
        """Run it to its end."""
        return self._isolation.run(
            task if self._gpus is None else task.model_copy(update={"gpus": self._gpus}), self._connected
        )

    def kill(self) -> None:
        """End it at once, also if it is only about to start."""
        with self._lock:
            self._killed = True
            if self._connection is not None:
                shut(self._connection)

    def _connected(self, connection: socket.socket) -> None:
        with self._lock:
            self._connection = connection
            if self._killed:
                shut(connection)


def _gpus(task: TrialTask, number: int) -> tuple[str, ...]:
    return task.gpus[number :: task.workers]
