"""A store at a URI: the store of its working copy, which a mirror keeps the URI up to."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from ablate.design.spec import GridSpec
from ablate.errors import StoreError
from ablate.record.mirror import Mirror, Told
from ablate.record.paths import AttemptKey, SnapshotKey
from ablate.record.store import Store
from ablate.remote.location import is_uri


def open_store(place: Path | str, grid: GridSpec, grid_bytes: bytes, launch: str, told: Told) -> Store:
    """Open the store at a folder or a URI.

    Args:
        place: ``runs/<study>``, or such a URI as ``s3://bucket/runs/<study>``.
        grid: the resolved grid.
        grid_bytes: the grid file as given.
        launch: the launch's id, which a store at a URI is taken under.
        told: is told what the user should know about a store that is away, was taken over, or is back.

    Raises:
        BadInput, StoreError: as ``Store.open``; for a URI also if it is none, or its store refuses.
    """
    if not is_uri(place):
        return Store.open(Path(place), grid, grid_bytes)
    return RemoteStore.open_at(str(place), grid, grid_bytes, launch, told)


class RemoteStore(Store):
    """Made by ``RemoteStore.open_at``."""

    _mirror: Mirror | None = None  # none while ``Store.open`` recovers: the mirror commits that as a whole
    _told: Told = staticmethod(lambda _: None)

    @classmethod
    def open_at(cls, uri: str, grid: GridSpec, grid_bytes: bytes, launch: str, told: Told) -> Self:
        """Take the store at ``uri`` and open its working copy.

        Raises:
            BadInput, StoreError: as ``open_store``.
        """
        mirror = Mirror.open(uri, launch, told)
        try:
            store = cls.open(mirror.paths.root, grid, grid_bytes)
            assert isinstance(store, cls)
            store.remote, store._told = uri, told
            mirror.start()
        except BaseException:
            with suppress(StoreError):
                mirror.close(wait=False)
            raise
        store._mirror = mirror
        return store

    def publish(self) -> None:
        """Upload initial weights, grid and diffs; nodes fetch weights by their hash.

        Raises:
            StoreError: if the store refuses, or does not come back.
        """
        assert self._mirror is not None
        self._mirror.commit()

    def collect(self, trial_id: str, attempt: int, wait: bool = True) -> None:
        """Fetch what an attempt uploaded, unless it ran on this machine.

        Raises:
            StoreError: if the store was taken over, refuses, or does not come back.
        """
        assert self._mirror is not None
        self._mirror.collect(AttemptKey(trial_id, attempt), wait)

    def snapshots(self) -> set[SnapshotKey]:
        """Return the snapshots that finished trials uploaded.

        Raises:
            StoreError: if the store refuses, or does not come back.
        """
        assert self._mirror is not None
        done = self.done()
        return {key for key in self._mirror.snapshots() if key.trial_id in done}

    def collect_probes(self, trial_id: str, wait: bool = True) -> None:
        """Fetch what probes of a trial's snapshots found, unless they ran on this machine.

        Raises:
            StoreError: if the store was taken over, refuses, or does not come back.
        """
        assert self._mirror is not None
        self._mirror.collect_probes(trial_id, wait)

    def rows_written(self, trial_id: str, attempt: int) -> int | None:
        """Return how many batches an attempt has recorded; of one on another node, how many it had uploaded lately."""
        here = super().rows_written(trial_id, attempt)
        return self._mirror.rows_seen(AttemptKey(trial_id, attempt)) if here is None and self._mirror else here

    def all_rows_written(self) -> dict[AttemptKey, int]:
        """Return the same of all of them."""
        here = super().all_rows_written()
        return {**self._mirror.all_rows_seen(), **here} if self._mirror else here

    def flush(self) -> None:
        """Write what was absorbed to Parquet, and have it uploaded.

        Raises:
            StoreError: if the disk is full or fails.
        """
        keys, probed = list(self._pending), self._probes.pending
        if self._mirror is None or not (keys or probed):
            super().flush()
            return
        self._mirror.changing()
        super().flush()
        self._mirror.changed(keys, probed)

    def close(self) -> None:
        """Flush, merge, upload the rest, waiting for a store that is away, and give the store back.

        Raises:
            StoreError: if disk or store refuse.
        """
        self._close(wait=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
            return
        try:  # what is raised already is what the user reads; an interrupted launch does not wait
            if isinstance(error, StoreError):
                super().__exit__(kind, error, trace)
                if self._mirror is not None:
                    self._mirror.close(wait=False)
            else:
                self._close(wait=False)
        except StoreError as further:
            self._told(str(further))

    def _close(self, wait: bool) -> None:
        mirror = self._mirror
        try:
            if mirror is not None:
                mirror.changing()
            super().close()
        finally:
            if mirror is not None:
                mirror.changed(())
                mirror.close(wait)
