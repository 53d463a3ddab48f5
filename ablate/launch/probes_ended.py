"""Probes as their tasks end: taken into the store, tried again or not, counted for the display."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

from ablate.errors import Problem, StoreError
from ablate.launch.after import Then, tried_again
from ablate.launch.progress import Display, State
from ablate.launch.waiting import Waiting
from ablate.record.paths import SnapshotKey
from ablate.record.store import Store
from ablate.trial.task import TrialEnd, TrialTask

NOTE = 300
"""Letters that are shown of a failure that is followed by another try."""


class ProbesEnded:
    """Takes in what the task of each trial found, and knows how far the probes are.

    Attributes:
        failed: how those ended that failed, after all tries.
    """

    def __init__(self, store: Store, tasks: Sequence[TrialTask], display: Display, waiting: Waiting) -> None:
        self.failed: list[TrialEnd] = []
        self._store = store
        self._display = display
        self._waiting = waiting
        self._tasks = len(tasks)
        self._open = {task.spec.trial_id: task for task in tasks}
        self._wanted = {SnapshotKey(task.spec.trial_id, at) for task in tasks for at in _at(task)}
        self._taken: set[SnapshotKey] = set()
        self._none: set[SnapshotKey] = set()  # the trial had ended before
        self._further: Counter[str] = Counter()
        self._mutex = threading.Lock()  # the display asks from a thread of its own
        display.follow(self.state)

    @property
    def snapshots(self) -> int:
        """How many weights were looked at."""
        return len(self._taken)

    def __call__(self, task: TrialTask, end: TrialEnd) -> Then | TrialTask:
        """Take in what was found; return what is left to be tried again, if the surroundings failed it."""
        trial_id = task.spec.trial_id
        if end.kind == "store":
            raise StoreError(Problem(str(self._store.paths.root), end.error))
        self._store.collect_probes(trial_id)
        self._take(task, end)
        left = self._left(task)
        if left and tried_again(end, self._further[trial_id]):
            return self._again(task, end, left)
        if left and end.status != "failed":
            where = f"probe of trial {trial_id} (arm {task.spec.arm}, block {task.spec.block})"
            words = f"{where}: it ended without a word on the weights after {_listed(left)} batches"
            end = end.model_copy(update={"status": "failed", "kind": "infrastructure", "error": words})
        with self._mutex:
            del self._open[trial_id]
            if left:
                self.failed.append(end)
        return Then.GO_ON

    def interrupt(self) -> None:
        """Take in what the probes that still ran had finished."""
        for task in self._open.values():
            with suppress(StoreError):  # what is left is taken in by the next launch
                self._store.collect_probes(task.spec.trial_id, wait=False)
                self._take(task, None)

    def state(self) -> State:
        """Count what was looked at, from the lines in the journal of what runs."""
        with self._mutex:
            tasks, failed = list(self._open.values()), len(self.failed)
            looked = len(self._taken | self._none)
        journal = {*self._store.paths.journal_probes()} & self._wanted - self._taken
        return State(
            done=self._tasks - len(tasks) - failed,
            failed=failed,
            running=sum(self._store.paths.probe_log(task.spec.trial_id).exists() for task in tasks),
            trials=self._tasks,
            batches=looked + len(journal),
            batches_in_all=len(self._wanted),
            of="trials probed",
            steps="snapshots",
            waiting=self._waiting.words,
        )

    def _take(self, task: TrialTask, end: TrialEnd | None) -> None:
        for at in _at(task):
            key = SnapshotKey(task.spec.trial_id, at)
            there = self._store.take_probe(*key)
            with self._mutex:
                if there:
                    self._taken.add(key)
                elif end and at in end.missing:
                    self._none.add(key)

    def _left(self, task: TrialTask) -> tuple[int, ...]:
        over = self._taken | self._none
        return tuple(at for at in _at(task) if (task.spec.trial_id, at) not in over)

    def _again(self, task: TrialTask, end: TrialEnd, left: tuple[int, ...]) -> TrialTask:
        assert task.probe is not None
        self._further[task.spec.trial_id] += 1
        again = task.model_copy(update={"probe": task.probe.model_copy(update={"at": left}), "gpus": ()})
        with self._mutex:
            self._open[task.spec.trial_id] = again
        self._display.note(f"{' '.join(end.error.split())[:NOTE]}: tried again")
        return again


def _at(task: TrialTask) -> tuple[int, ...]:
    assert task.probe is not None
    return task.probe.at


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
