"""From a working copy to its store at a URI: new files, then the manifest, then what is superseded goes."""

from __future__ import annotations

from collections.abc import Collection

from ablate.record.manifest import (
    COMMITTED,
    JOURNAL,
    UPLOADED_BY_NODES,
    Manifest,
    changing_files,
    committed_name,
    data_folders,
    lasting_files,
)
from ablate.record.manifest import NAME as MANIFEST
from ablate.record.paths import AttemptKey, SnapshotKey, StorePaths
from ablate.remote.growing import file_of, last_first
from ablate.remote.objects import Objects

_TRIES = 20


class Publisher:
    """Knows what is at the URI, so that a push sends and deletes only what changed.

    Args:
        objects: the store.
        paths: its working copy.
        there: what is at the URI, names and sizes.
    """

    def __init__(self, objects: Objects, paths: StorePaths, there: dict[str, int]) -> None:
        self._objects = objects
        self._paths = paths
        folders = tuple(f"{folder.name}/" for folder in (*data_folders(paths), paths.root / COMMITTED))
        self._there = {name: size for name, size in there.items() if name.startswith(folders)}
        self._committed: Manifest | None = None

    def knows(self, names: dict[str, int]) -> None:
        """Take note of files that a node uploaded."""
        self._there |= names

    def push(self, absorbed: Collection[AttemptKey], probed: Collection[SnapshotKey] = ()) -> None:
        """Upload what is new, commit it, and delete what it supersedes: older parts and absorbed journals.

        May be called while the store is flushed: it uploads what is there before or after any of its steps.

        Args:
            absorbed: attempts that were in the data sets when this was called.
            probed: snapshots whose probes were.

        Raises:
            StoreError: if the store refuses; it is then as before, or as after, for whoever reads it.
        """
        changing = changing_files(self._paths)  # first: parts of all trials that it counts are there by then
        files = self._send_lasting()
        named = {name: committed_name(name, content) for name, content in changing.items()}
        for name, content in changing.items():
            if named[name] not in self._there:
                self._objects.write(named[name], content)
                self._there[named[name]] = len(content)
        manifest = Manifest(files, named)
        if manifest != self._committed:
            before = self._committed
            self._objects.write(MANIFEST, manifest.encoded())
            for name, content in changing.items():
                if before is None or before.changing.get(name) != named[name]:
                    self._objects.write(name, content)
            self._committed = manifest
        gone = {path.name for key in absorbed for path in self._paths.journal_files(*key)}
        self._delete(manifest, gone | {self._paths.probe_lines(*key).name for key in probed})

    def _send_lasting(self) -> dict[str, int]:
        for tries in range(_TRIES):
            files = {}
            try:
                for name, path in lasting_files(self._paths).items():
                    size = path.stat().st_size
                    if self._there.get(name) != size:
                        by_node = name.startswith(UPLOADED_BY_NODES) and self._objects.size(name) == size
                        self._there[name] = size if by_node else self._objects.send(name, path)
                    files[name] = self._there[name]
                return files
            except FileNotFoundError:  # merged meanwhile: what holds its rows now is found by looking again
                if tries == _TRIES - 1:
                    raise
        raise AssertionError("unreachable")

    def _delete(self, manifest: Manifest, absorbed: Collection[str]) -> None:
        """Delete what no longer counts: superseded parts, and the files of the journal that have these names."""
        kept = {*manifest.files, *manifest.changing.values(), *manifest.changing}
        for name in [name for name in self._there if name not in kept]:
            self._objects.delete(name)
            del self._there[name]
        if absorbed:
            journals = [name for name in self._objects.names(JOURNAL) if file_of(name).rpartition("/")[2] in absorbed]
            for name in last_first(journals):
                self._objects.delete(name)
