"""A store at a URI seen by its one writer: a working copy on disk, and a thread that keeps the store up to it.

What lies at the URI is at any moment a whole store: data sets as of the last commit, and the journals of every attempt
that they do not hold. So a launch that was broken off goes on from there on any machine; on its own machine it goes on
from the working copy, which may be ahead.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from pathlib import Path

from ablate.errors import BadInput, Problem, StoreError
from ablate.record.disk import store_error
from ablate.record.lock import StoreLock
from ablate.record.paths import AttemptKey, SnapshotKey, StorePaths
from ablate.record.pull import (
    pull_artifact_files,
    pull_data,
    pull_journals,
    pull_probes,
    pull_reproductions,
    rows_uploaded,
)
from ablate.record.push import Publisher
from ablate.record.working_copy import CopyState
from ablate.remote.lease import Lease, LeaseLost
from ablate.remote.location import working_copy
from ablate.remote.objects import Objects
from ablate.remote.patience import backoff, patiently
from ablate.remote.refusal import Unreachable

Told = Callable[[str], None]
LOOK_S = 10.0
"""How often is looked how far other nodes' trials are; they upload their rows as often."""


class Mirror:
    """Made by ``Mirror.open``.

    Attributes:
        uri: the store.
        paths: its working copy.
    """

    def __init__(
        self, objects: Objects, paths: StorePaths, lock: StoreLock, lease: Lease, state: CopyState, told: Told
    ) -> None:
        self.uri = objects.uri
        self.paths = paths
        self._objects = objects
        self._lock = lock
        self._lease = lease
        self._state = state
        self._told = told
        self._publisher = Publisher(objects, paths, self._pull())
        self._absorbed: set[AttemptKey] = set()
        self._probed: set[SnapshotKey] = set()
        self._changes, self._under_way = 1, False
        self._wake, self._stop = threading.Event(), threading.Event()
        self._pushing, self._noting = threading.Lock(), threading.Lock()
        self._failure: StoreError | None = None
        self._threads: list[threading.Thread] = []
        self._seen: dict[AttemptKey, int] = {}

    @classmethod
    def open(cls, uri: str, launch: str, told: Told) -> Mirror:
        """Reach the store, take it, and fetch what the working copy lacks.

        Args:
            uri: the store.
            launch: the launch's id.
            told: is told what the user should know meanwhile.

        Raises:
            BadInput: if the URI is none.
            StoreError: if credentials, bucket or endpoint are wrong, or another launch has the store.
        """
        objects = Objects(uri)
        objects.check_usable()
        paths = StorePaths(working_copy(uri))
        root = paths.root
        try:
            root.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            advice = "set ABLATE_CACHE to a folder that can be written"
            raise BadInput(Problem(str(root.parent), f"cannot be made ({error.strerror})", advice=advice)) from error
        lock = StoreLock(lock_of(paths))
        try:
            state = CopyState(root)
            state.began(launch)  # before the lease: a copy whose launch has the lease is known as its own
            lease = Lease.take(objects, launch, told)
            try:
                mirror = cls(objects, paths, lock, lease, state, told)
            except BaseException:
                lease.release()
                raise
        except BaseException:
            lock.release()
            raise
        lease.keep(told)
        return mirror

    def start(self) -> None:
        """Commit what recovery made of the working copy, and keep the store up to it from now on.

        Raises:
            StoreError: if the store refuses.
        """
        self._push()
        self._threads = [threading.Thread(target=run, daemon=True) for run in (self._keep_up, self._keep_looking)]
        for thread in self._threads:
            thread.start()

    def changing(self) -> None:
        """Note, before the working copy changes, that it will be ahead.

        Raises:
            StoreError: if the disk refuses.
        """
        with self._noting:
            self._under_way = True
            self._state.set(whole=False)

    def changed(self, absorbed: Collection[AttemptKey], probed: Collection[SnapshotKey] = ()) -> None:
        """Have the changes uploaded soon, and these attempts' journals and probes' lines deleted after that."""
        with self._noting:
            self._changes, self._under_way = self._changes + 1, False
            self._absorbed |= {*absorbed}
            self._probed |= {*probed}
        self._wake.set()

    def check(self) -> None:
        """Raise what ended the uploads for good: the store was taken over, or refuses."""
        self._lease.check_known()
        if self._failure:
            raise self._failure

    def commit(self) -> None:
        """Upload everything now, waiting for a store that is away.

        Raises:
            StoreError: if the store refuses, or does not come back.
        """
        patiently(self._push, self._told)

    def rows_seen(self, key: AttemptKey) -> int | None:
        """Return how many rows an attempt had uploaded when that was last looked at; None if it had none."""
        return self._seen.get(key)

    def all_rows_seen(self) -> dict[AttemptKey, int]:
        """Return the same of all that had any."""
        return dict(self._seen)

    def collect(self, key: AttemptKey, wait: bool = True) -> None:
        """Fetch an attempt's journal, unless it ran on this machine.

        Args:
            key: the attempt.
            wait: whether to wait for a store that is away.

        Raises:
            StoreError: if the store refuses, or does not come back.
        """
        self.check()
        if any(path.exists() for path in (self.paths.rows(*key), self.paths.trial_json(*key))):
            return  # attempts are numbered past all that was ever fetched, so this one was written here
        patience_s = None if wait else 0.0
        patiently(lambda: pull_journals(self._objects, self.paths, key), self._told, patience_s)
        for pull in (pull_artifact_files, pull_reproductions):
            self._publisher.knows(patiently(partial(pull, self._objects, self.paths, key), self._told, patience_s))

    def snapshots(self) -> set[SnapshotKey]:
        """Return the snapshots that trials have uploaded: no node has another's.

        Raises:
            StoreError: if the store refuses, or does not come back.
        """
        names = patiently(lambda: self._objects.names(self.paths.snapshots.name), self._told)
        return self.paths.snapshots_named(name.rpartition("/")[2] for name in names)

    def collect_probes(self, trial_id: str, wait: bool = True) -> None:
        """Fetch what probes of a trial's snapshots found, unless they ran on this machine.

        Args:
            trial_id: the trial.
            wait: whether to wait for a store that is away.

        Raises:
            StoreError: if the store refuses, or does not come back.
        """
        self.check()
        patience_s = None if wait else 0.0
        patiently(lambda: pull_probes(self._objects, self.paths, trial_id), self._told, patience_s)

    def close(self, wait: bool) -> None:
        """Upload what is left and give the store back.

        Args:
            wait: whether to wait for a store that is away.

        Raises:
            StoreError: if not everything could be uploaded; it stays in the working copy.
        """
        self._stop.set()
        self._wake.set()
        for thread in self._threads:
            thread.join()
        try:
            patiently(self._push, self._told, None if wait else 0.0)
        except Unreachable as error:
            advice = f"everything is in {self.paths.root}: launch again on this machine once the store is back"
            found = f"{error.problems[0].found}; the last results are not uploaded"
            raise StoreError(Problem(error.problems[0].where, found, advice=advice)) from error
        finally:
            with suppress(StoreError):
                self._lease.release()
            self._lock.release()

    def _pull(self) -> dict[str, int]:
        previous = self._lease.previous.launch if self._lease.previous else None
        own = previous in self._state.launches[:-1]
        there = self._objects.names()
        has_copy = self.paths.spec_json.exists()
        ahead = has_copy and not self._state.whole and (own or previous is None)
        if not ahead:
            if has_copy and not self._state.whole:
                self._set_aside()
            there = pull_data(self._objects, self.paths, also_uncommitted=True, keep=own)
            self._state.forget()
        else:
            self._told(f"going on from {self.paths.root}, which is ahead of the store")
        pull_journals(self._objects, self.paths)
        self._probes_there = pull_probes(self._objects, self.paths)
        self._state.set(whole=False)  # until the first commit
        self._uploaded = self.paths.attempts_named(
            name.rpartition("/")[2] for name in there if name.startswith(f"{self.paths.journal.name}/")
        )
        return there

    def _set_aside(self) -> None:
        aside = self.paths.root.with_name(f"{self.paths.root.name}.aside-{time.strftime('%Y%m%d-%H%M%S')}")
        shutil.move(self.paths.root, aside)
        self._told(f"another machine wrote the store since; what had not been uploaded from here is kept in {aside}")

    def _push(self) -> None:
        with self._pushing:
            self._lease.check()
            with self._noting:
                changes, absorbed, probed = self._changes, set(self._absorbed), set(self._probed)
            left = {*self._uploaded} - {*self.paths.journal_attempts()}
            looked_at = {*self._probes_there} - {*self.paths.journal_probes()}
            self._publisher.push(absorbed | left, probed | looked_at)
            self._uploaded = [key for key in self._uploaded if key not in left]
            self._probes_there = [key for key in self._probes_there if key not in looked_at]
            with self._noting:
                self._absorbed -= absorbed
                self._probed -= probed
                if changes == self._changes and not self._under_way:
                    self._state.set(whole=True)

    def _keep_looking(self) -> None:
        """See how far trials of other nodes are, for the display; one that is here is looked at here."""
        heads: dict[str, bytes] = {}
        while not self._stop.wait(LOOK_S):
            try:
                self._seen = rows_uploaded(self._objects, self.paths, heads)
            except (StoreError, OSError):  # away, or this machine's disk: whoever needs them tells of it
                continue

    def _keep_up(self) -> None:
        tries = 0
        while not self._stop.is_set():
            self._wake.wait()
            self._wake.clear()
            while not self._stop.is_set():
                try:
                    self._push()
                    tries = 0
                    break
                except LeaseLost:
                    return
                except Unreachable:  # the lease's thread, or whoever waits, tells of it
                    self._stop.wait(backoff(tries))
                    tries += 1
                except StoreError as error:
                    self._failure = error
                    return
                except OSError as error:  # of this machine's disk
                    self._failure = store_error(error, self.paths.root)
                    return


def lock_of(paths: StorePaths) -> Path:
    """Return the file that a launch locks for as long as the folder is its working copy."""
    return paths.root.with_name(f"{paths.root.name}.lock")
