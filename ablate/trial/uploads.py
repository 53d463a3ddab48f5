"""A node's part in a store at a URI: fetches what a trial begins from, uploads what it writes while it runs.

It happens beside the trial, in the process that asked for it (a Ray actor, the local launcher): the trial's own
process is forked and holds no connection, and is not slowed. A checkpoint is uploaded at once, after the rows that it
counts on.
"""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

from ablate.errors import Problem, StoreError
from ablate.record.lock import is_held
from ablate.record.manifest import CHECKPOINTS, check_inside
from ablate.record.mirror import lock_of
from ablate.record.paths import AttemptKey
from ablate.remote.growing import Growing, segments
from ablate.remote.patience import backoff
from ablate.remote.refusal import Unreachable
from ablate.trial.node import Node
from ablate.trial.probe_uploads import ProbeNode
from ablate.trial.task import TrialEnd, TrialTask

EVERY_S = 10.0
"""How often rows are uploaded: what a lost node may lose at most."""
LAST_UPLOADS_S = 10.0
"""How long a launch that is interrupted waits for the uploads of trials that it ended."""
LOOK_S = 0.5
"""How often is looked for a new checkpoint, which is uploaded at once."""

Started = Callable[[socket.socket], None]


class Runs(Protocol):
    """What runs a task on this machine: ``ablate.trial.isolation.Isolation``."""

    def run(self, task: TrialTask, started: Started | None = None) -> TrialEnd:
        """Run a task to its end."""
        ...

    def close(self) -> None:
        """Let go of what it holds."""
        ...


class Uploading:
    """Runs tasks on this machine, their store wherever it is."""

    def __init__(self, isolation: Runs) -> None:
        self._isolation = isolation
        self._closed = threading.Event()
        self._running = 0
        self._ended = threading.Condition()

    def run(self, task: TrialTask, started: Started | None = None) -> TrialEnd:
        """Run a task to its end; with a store at a URI until everything of it is uploaded.

        Args:
            task: the attempt.
            started: told the connection; shutting it down from another thread kills the trial.

        Returns:
            How it ended; failed by its surroundings if the store was away for too long, by its ``store`` if it refuses.
        """
        if task.remote is None:
            return self._isolation.run(task, started)
        with self._ended:
            self._running += 1
        try:
            node = (ProbeNode if task.probe else _Node)(task, task.remote, self._closed)
            with node.uploading():
                end = self._isolation.run(node.task, started)
            node.finish(end)
        except Unreachable as error:  # from here: another node may reach it, and the launch knows whether it does
            return task.failed("infrastructure", f"its node lost the store: {error}")
        except StoreError as error:
            return task.failed("store", str(error))
        except OSError as error:  # of this machine's disk: another machine may have a better one
            return task.failed("infrastructure", f"its files could not be uploaded: {error}")
        finally:
            with self._ended:
                self._running -= 1
                self._ended.notify_all()
        return end

    def close(self) -> None:
        """Let go of what runs tasks, and wait a moment for uploads of trials that were ended, but for no store."""
        self._closed.set()
        self._isolation.close()
        with self._ended:
            self._ended.wait_for(lambda: self._running == 0, LAST_UPLOADS_S)


class _Node(Node):
    """One attempt on this machine."""

    def __init__(self, task: TrialTask, uri: str, closed: threading.Event) -> None:
        super().__init__(task, uri, closed)
        self._key = AttemptKey(task.spec.trial_id, task.attempt)
        end = self._paths.trial_json(*self._key)
        self._end = self._growing(end)
        self._journal = [self._growing(path) for path in self._paths.journal_files(*self._key) if path != end]
        self._kept = [
            self._growing(of(*self._key))
            for of in (
                self._paths.checkpoint_rows,
                self._paths.checkpoint_audits,
                self._paths.checkpoint_artifacts,
                self._paths.checkpoint_sketches,
            )
        ]
        self._sent_state: tuple[int, int] | None = None
        self._patiently(self._fetch)

    def finish(self, end: TrialEnd) -> None:
        """Upload the rest; then a complete trial's checkpoint is deleted, and what only this node needed too.

        Raises:
            StoreError: if the store refuses, or does not come back.
        """
        self._patiently(lambda: self._send_all(end))
        if not is_held(lock_of(self._paths)):  # not the launching process's machine: nobody reads these here
            for path in (*self._paths.journal_files(*self._key), *self._artifact_files(), *self._snapshots()):
                path.unlink(missing_ok=True)

    def _send_all(self, end: TrialEnd) -> None:
        if end.status == "failed":
            self._send_checkpoint()
        self._send_rows()
        self._end.send(self._objects)  # last: who sees it takes all that it counts for there
        if end.status != "failed":
            for name in self._objects.names(f"{CHECKPOINTS}/{self._key.trial_id}"):
                self._objects.delete(name)

    def _fetch(self) -> None:
        if self.task.weights is not None:
            path = self._paths.initial_weights(self.task.weights)
            if not path.exists():
                try:
                    self._objects.fetch(self._name(path), path)
                except FileNotFoundError as error:
                    advice = "launch again: they are made and uploaded first"
                    where = f"{self._objects.uri}: {self._name(path)}"
                    raise StoreError(Problem(where, "these initial weights are not there", advice=advice)) from error
        self._fetch_checkpoint()

    def _fetch_checkpoint(self) -> None:
        """Fetch the trial's checkpoint if it is a later attempt's than the one here; an attempt runs on one node."""
        here = self._paths.checkpoint(self._key.trial_id)
        names = self._objects.names(f"{CHECKPOINTS}/{self._key.trial_id}")
        state = self._name(here)
        if state not in names or (here.exists() and _latest(names) <= _latest(map(self._name, here.parent.iterdir()))):
            return
        with tempfile.TemporaryDirectory(dir=self._paths.checkpoints, prefix="fetching-") as folder:
            for base, parts in segments(name for name in names if name != state).items():
                check_inside(base, self._objects.uri)
                self._objects.fetch_joined(parts, Path(folder) / Path(base).name)
            self._objects.fetch(state, Path(folder) / here.name)
            shutil.rmtree(here.parent, ignore_errors=True)
            here.parent.mkdir()
            for path in sorted(Path(folder).iterdir(), key=lambda path: path.name == here.name):  # the state last
                path.replace(here.parent / path.name)

    def _keep_uploading(self, over: threading.Event) -> None:
        """Upload until the trial is over; what fails is tried again, here or at the end."""
        due, tries = time.monotonic(), 0
        while not over.wait(LOOK_S):
            try:
                self._send_checkpoint()
                if time.monotonic() >= due:
                    self._send_rows()
                    due = time.monotonic() + EVERY_S
                tries = 0
            except (StoreError, OSError):  # the latter of this machine's disk
                over.wait(backoff(tries))
                tries += 1

    def _send_rows(self) -> None:
        reproductions = self._paths.reproductions_of(self._key.trial_id)
        self._send_files([*self._artifact_files(), *self._snapshots(), *reproductions])
        for growing in self._journal:
            growing.send(self._objects)

    def _send_checkpoint(self) -> None:
        path = self._paths.checkpoint(self._key.trial_id)
        try:
            with path.open("rb") as file:  # stays this checkpoint, although a newer one may replace it meanwhile
                found = os.fstat(file.fileno())
                state = (found.st_mtime_ns, found.st_ino)
                if state == self._sent_state or not self._paths.checkpoint_rows(*self._key).exists():
                    return
                self._send_files([*self._artifact_files(), *self._snapshots()])
                for growing in self._kept:
                    growing.send(self._objects)
                self._objects.send_open(self._name(path), file)
                self._sent_state = state
        except FileNotFoundError:
            return  # the trial is complete and has deleted it

    def _artifact_files(self) -> list[Path]:
        prefix = f"{self._key.trial_id}-{self._key.attempt}-"
        own = self._paths.artifact_files_of(self._key.trial_id)
        return [path for path in own if path.name.startswith(prefix)]

    def _snapshots(self) -> list[Path]:
        """What the trial has kept so far for probes."""
        kept = (key for key in self._paths.kept_snapshots() if key.trial_id == self._key.trial_id)
        return [self._paths.snapshot(*key) for key in sorted(kept)]

    def _growing(self, path: Path) -> Growing:
        return Growing(path, self._name(path))


def _latest(names: Iterable[str]) -> int:
    """Return the last attempt that any of a checkpoint's files belongs to."""
    numbers = [name.rpartition("/")[2].partition(".")[0] for name in names]
    return max((int(number) for number in numbers if number.isdecimal()), default=0)
