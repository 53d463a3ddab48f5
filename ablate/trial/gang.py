"""A trial's workers, seen from who started them: one end for all, with its cause, and nothing left running.

The first process opens a place to meet and says where; then the others are started. When the first is done, the trial
is. When one fails, the others have a moment to say what they know, and are killed; the attempt's end is the first that
is not merely the loss of another.
"""

from __future__ import annotations

import queue
import socket
import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ablate.trial.task import Rank, TrialEnd, TrialTask

GRACE_S = 5.0
"""How long the others may take to end by themselves once one has failed: its connections break at once."""

Started = Callable[[socket.socket], None]


class First(Protocol):
    """What runs the first worker: ``ablate.trial.isolation.Isolation``."""

    def run(
        self, task: TrialTask, started: Started | None = None, heard: Callable[[dict[str, Any]], None] = ...
    ) -> TrialEnd:
        """Run a task to its end."""
        ...


class Follower(Protocol):
    """What runs a further worker, on this machine or another."""

    def run(self, task: TrialTask) -> TrialEnd:
        """Run it to its end."""
        ...

    def kill(self) -> None:
        """End it at once, or do nothing if it has ended."""
        ...


class Gang:
    """The workers of one attempt.

    Args:
        task: the attempt.
        first: runs the first worker here.
        others: run the further ones.
        host: address of this machine, at which the others reach the first.
        started: told the first worker's connection; shutting it down kills them all.
    """

    def __init__(
        self, task: TrialTask, first: First, others: Sequence[Follower], host: str, started: Started | None = None
    ) -> None:
        self._task = task
        self._first = first
        self._others = others
        self._host = host
        self._started = started
        self._connection: socket.socket | None = None
        self._heard: queue.Queue[tuple[int, TrialEnd | Exception | int]] = queue.Queue()
        self._running: set[int] = set()
        self._failed: list[TrialEnd] = []

    def run(self) -> TrialEnd:
        """Run them to their end.

        Raises:
            AblateError: no process could be started for one.
        """
        self._start(0, lambda: self._first.run(self._of(0), self._connected, self._tell))
        error: Exception | None = None
        end: TrialEnd | None = None
        try:
            while end is None and error is None:
                try:
                    number, said = self._hear(GRACE_S if self._failed else None)
                except queue.Empty:
                    break
                if isinstance(said, int):
                    self._start_others(said)
                elif isinstance(said, Exception):
                    error = said
                elif said.status == "failed":
                    self._failed.append(said)
                elif number == 0:
                    end = said
                if self._failed and not self._running:
                    break
        finally:
            self._kill()
        if error is not None:
            raise error
        return end or next((one for one in self._failed if not one.lost), self._failed[0])

    def _start(self, number: int, run: Callable[[], TrialEnd]) -> None:
        def to_its_end() -> None:
            try:
                said: TrialEnd | Exception = run()
            except Exception as error:
                said = error
            self._heard.put((number, said))

        self._running.add(number)
        threading.Thread(target=to_its_end, daemon=True).start()

    def _hear(self, timeout_s: float | None) -> tuple[int, TrialEnd | Exception | int]:
        """Return what one says; it counts as running until its end is heard, so that no end goes unheard."""
        number, said = self._heard.get(timeout=timeout_s)
        if not isinstance(said, int):
            self._running.discard(number)
        return number, said

    def _start_others(self, port: int) -> None:
        if self._failed:
            return
        for number, other in enumerate(self._others, 1):
            self._start(number, lambda other=other, number=number: other.run(self._of(number, port)))  # type: ignore[misc]

    def _of(self, number: int, port: int = 0) -> TrialTask:
        rank = Rank(number=number, of=self._task.workers, host=self._host, port=port)
        return self._task.model_copy(update={"rank": rank})

    def _connected(self, connection: socket.socket) -> None:
        self._connection = connection
        if self._started:
            self._started(connection)

    def _tell(self, message: dict[str, Any]) -> None:
        if "meet" in message:
            self._heard.put((0, int(message["meet"])))

    def _kill(self) -> None:
        """Kill what still runs, and wait until it is gone."""
        if self._connection is not None and 0 in self._running:
            shut(self._connection)
        for number, other in enumerate(self._others, 1):
            if number in self._running:
                other.kill()
        while self._running:
            try:
                self._hear(GRACE_S)
            except queue.Empty:
                return


def shut(connection: socket.socket) -> None:
    """Shut a worker's connection down; its server then kills it."""
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return
