"""Attempts as they end: taken into the store, tried again or not, counted for the display."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress

from ablate.design.grid import Outcome
from ablate.errors import Problem, StoreError
from ablate.launch.after import Then, tried_again
from ablate.launch.hopeless import Hopeless
from ablate.launch.outcome import check_recorded
from ablate.launch.progress import Display, State
from ablate.launch.waiting import Waiting
from ablate.record.columns import FailureKind
from ablate.record.intake import StillWritten, cut_off
from ablate.record.paths import AttemptKey
from ablate.record.store import Store
from ablate.trial.task import TrialEnd, TrialTask

NOTE = 300
"""Letters that are shown of a failure that is followed by another attempt; the rest is in the store."""


class Ended:
    """Takes in each attempt that ended, and knows how far the launch is."""

    def __init__(
        self,
        store: Store,
        outcome: Outcome,
        tasks: Sequence[TrialTask],
        trials_in_all: int,
        display: Display,
        waiting: Waiting,
    ) -> None:
        self.failed: list[TrialEnd] = []
        self._further: Counter[str] = Counter()  # attempts beyond this launch's first, by trial
        self._display = display
        self._waiting = waiting
        self._store = store
        self._outcome: Outcome | None = outcome
        self._open = {task.spec.trial_id: task for task in tasks}
        self._done = trials_in_all - len(tasks)
        self._hopeless = Hopeless([task.spec for task in tasks], self._done)
        self.given_up = 0
        self._trials = trials_in_all
        self._length = tasks[0].spec.batches
        self._mutex = threading.Lock()  # the display asks from a thread of its own
        display.follow(self.state)

    def __call__(self, task: TrialTask, end: TrialEnd) -> Then | TrialTask:
        """Absorb an attempt; return the next one at the trial, if its surroundings failed it and not its code."""
        spec = task.spec
        if end.kind == "store":
            raise StoreError(Problem(str(self._store.paths.root), end.error))
        self._store.collect(spec.trial_id, task.attempt)
        if end.status == "done" and self._outcome is not None:
            outcome, self._outcome = self._outcome, None
            check_recorded(outcome, self._store.paths, spec.trial_id, task.attempt)
        reached = self._store.rows_written(spec.trial_id, task.attempt)
        status = self._store.absorb(spec.trial_id, task.attempt)
        if status is None:
            status = self._failed(task, end.kind or "infrastructure", end.error)
        if status == "failed" and tried_again(end, self._further[spec.trial_id]):
            return self._again(task, end)
        with self._mutex:
            del self._open[spec.trial_id]
            if status == "failed":
                self.failed.append(end)
            else:
                self._done += 1
        if status != "failed":
            self._hopeless.done()
            return Then.GO_ON
        self._hopeless.failed(spec, end, reached)
        if not self._open or not self._hopeless.gives_up(self._reached()):
            return Then.GO_ON
        self.given_up = len(self._open)
        return Then.STOP

    def _failed(self, task: TrialTask, kind: FailureKind, error: str) -> str:
        spec = task.spec
        try:
            return self._store.fail(spec, task.attempt, kind, error)
        except StillWritten as still:
            problem = still.problems[0]
            self._display.note(f"{problem.where}: {problem.found}; what it adds from here on counts for nothing")
            cut_off(self._store.paths, AttemptKey(spec.trial_id, task.attempt))
            return self._store.fail(spec, task.attempt, kind, error)

    def _reached(self) -> Iterator[int | None]:
        """Yield them one by one: each is a look at a journal, and mostly none is wanted."""
        return (self._store.rows_written(task.spec.trial_id, task.attempt) for task in self._open.values())

    def _again(self, task: TrialTask, end: TrialEnd) -> TrialTask:
        trial_id = task.spec.trial_id
        self._further[trial_id] += 1
        again = task.model_copy(update={"attempt": self._store.next_attempt(trial_id), "gpus": ()})
        with self._mutex:
            self._open[trial_id] = again
        self._display.note(f"{' '.join(end.error.split())[:NOTE]}: tried again as attempt {again.attempt}")
        return again

    def interrupt(self) -> None:
        """Record that what still ran was interrupted; its rows are kept as an attempt."""
        for task in self._open.values():
            with suppress(StoreError):  # what was uploaded is taken in by the next launch
                self._store.collect(task.spec.trial_id, task.attempt, wait=False)
            if self._store.paths.trial_json(task.spec.trial_id, task.attempt).exists():
                self._store.absorb(task.spec.trial_id, task.attempt)
            elif self._store.paths.rows(task.spec.trial_id, task.attempt).exists():
                self._store.fail(task.spec, task.attempt, "interrupted", "the launch was interrupted")

    def state(self) -> State:
        """Count acknowledged rows, from the size of the journals of what runs."""
        with self._mutex:
            tasks, done, failed = dict(self._open), self._done, len(self.failed)
        written = self._store.all_rows_written()  # of most there is nothing: none is asked for by itself
        rows = [written.get(AttemptKey(trial_id, task.attempt)) for trial_id, task in tasks.items()]
        return State(
            done=done,
            failed=failed,
            running=sum(count is not None for count in rows),
            trials=self._trials,
            batches=(done + failed) * self._length + sum(count or 0 for count in rows),
            batches_in_all=self._trials * self._length,
            waiting=self._waiting.words,
        )
