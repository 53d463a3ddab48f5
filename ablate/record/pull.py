"""From a store at a URI to a folder: data sets by the manifest, only what is missing; journals by their length."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from ablate.errors import Problem, StoreError
from ablate.record.journal import HEAD_BYTES, rows_in
from ablate.record.json_lines import read_lines
from ablate.record.manifest import (
    JOURNAL,
    UPLOADED_BY_NODES,
    Manifest,
    check_inside,
    committed_name,
    copied,
    lasting_files,
    read_manifest,
)
from ablate.record.paths import AttemptKey, SnapshotKey, StorePaths
from ablate.remote.growing import segments, size_of
from ablate.remote.objects import Objects

_TRIES = 5


def pull_data(objects: Objects, paths: StorePaths, also_uncommitted: bool, keep: bool = False) -> dict[str, int]:
    """Make a folder's data sets equal to those at a URI.

    Args:
        objects: the store.
        paths: the folder.
        also_uncommitted: whether to fetch files that nodes of a broken-off launch left too.
        keep: whether to keep weights, images and logs that are not there: nobody else has written the store since.

    Returns:
        What is at the URI, names and sizes; empty if there is no store.

    Raises:
        StoreError: if something is missing there, or store or disk refuse.
    """
    for tries in range(_TRIES):
        names = objects.names()
        manifest = read_manifest(objects) or copied(names, paths)
        try:
            _fetch(objects, paths, manifest, names if also_uncommitted else {}, keep)
            return names
        except FileNotFoundError as error:  # superseded and deleted meanwhile, or gone for good
            if tries == _TRIES - 1:
                found = f"an object that its manifest names is not there ({error})"
                advice = "restore it from a copy, or delete the store there and launch again"
                raise StoreError(Problem(objects.uri, found, advice=advice)) from error
    raise AssertionError("unreachable")


def pull_journals(objects: Objects, paths: StorePaths, only: AttemptKey | None = None) -> list[AttemptKey]:
    """Fetch what attempts uploaded of their journals and the folder has not, or has less of.

    Args:
        objects: the store.
        paths: the folder.
        only: one attempt. [default: all]

    Returns:
        The attempts that have any file there.

    Raises:
        StoreError: if store or disk refuse.
    """
    names = objects.names(JOURNAL)
    for name in names:
        check_inside(name, objects.uri)
    files = segments(names)
    there = paths.attempts_named(name.rpartition("/")[2] for name in files)
    for key in there:
        if only is not None and key != only:
            continue
        for path in paths.journal_files(*key):  # a trial's end is fetched after the rows that it counts
            parts = files.get(path.relative_to(paths.root).as_posix(), [])
            if parts and (not path.exists() or path.stat().st_size < size_of(parts, names)):
                try:
                    objects.fetch_joined(parts, path)
                except FileNotFoundError:  # its launch has just taken it in
                    continue
    return there


def pull_probes(objects: Objects, paths: StorePaths, only: str | None = None) -> list[SnapshotKey]:
    """Fetch what finished probes uploaded and the folder has not.

    Args:
        objects: the store.
        paths: the folder.
        only: one trial. [default: all]

    Returns:
        The snapshots that they looked at.

    Raises:
        StoreError: if store or disk refuse.
    """
    names = objects.names(JOURNAL)
    there = paths.probes_named(name.rpartition("/")[2] for name in names)
    for key in there:
        path = paths.probe_lines(*key)
        if only in (None, key.trial_id) and not path.exists():
            with suppress(FileNotFoundError):  # its launch has just taken it in
                objects.fetch(path.relative_to(paths.root).as_posix(), path)
    return there


def rows_uploaded(objects: Objects, paths: StorePaths, heads: dict[str, bytes]) -> dict[AttemptKey, int]:
    """Return how many rows each attempt has uploaded whose rows are not in the folder.

    Args:
        objects: the store.
        paths: the folder.
        heads: first bytes of journals; kept by the caller from one call to the next.

    Raises:
        StoreError: if the store refuses.
    """
    names = objects.names(JOURNAL)
    found = {}
    for file, parts in segments(names).items():
        path = paths.root / file
        if path.suffix != ".rows" or path.exists():
            continue
        size = size_of(parts, names)
        if file not in heads or rows_in(heads[file], size, path) == 0:
            heads[file] = objects.read_head(file, HEAD_BYTES)
        [key] = paths.attempts_named([path.name])
        found[key] = rows_in(heads[file], size, path)
    return found


def pull_artifact_files(objects: Objects, paths: StorePaths, key: AttemptKey) -> dict[str, int]:
    """Fetch the images and arrays that an attempt's lines name; return their names and sizes.

    Raises:
        StoreError: if one is missing, or store or disk refuse.
    """
    found = {}
    files = {line["file"] for line in read_lines(paths.artifact_lines(*key)) if line.get("file")}
    for file in sorted(files):
        path = paths.artifact_files / file
        name = path.relative_to(paths.root).as_posix()
        check_inside(name, objects.uri)
        if not path.exists():
            try:
                objects.fetch(name, path)
            except FileNotFoundError as error:
                raise StoreError(Problem(objects.uri, f"{name} was not uploaded, but its trial names it")) from error
        found[name] = path.stat().st_size
    return found


def pull_reproductions(objects: Objects, paths: StorePaths, key: AttemptKey) -> dict[str, int]:
    """Fetch the reproductions of faults that an attempt's audit found; return their names and sizes.

    Raises:
        StoreError: if store or disk refuse.
    """
    if not any(line.get("check") == "departure" for line in read_lines(paths.audit_lines(*key))):
        return {}
    names = objects.names(paths.reproductions.name)
    found = {name: size for name, size in names.items() if f"-{key.trial_id}-batch" in name}
    for name in found:
        check_inside(name, objects.uri)
        if not (paths.root / name).exists():
            objects.fetch(name, paths.root / name)
    return found


def _fetch(objects: Objects, paths: StorePaths, manifest: Manifest, beside: Mapping[str, int], keep: bool) -> None:
    wanted = {**manifest.files, **{name: size for name, size in beside.items() if name.startswith(UPLOADED_BY_NODES)}}
    here = lasting_files(paths)
    for name in wanted:
        check_inside(name, objects.uri)
        if name not in here or here[name].stat().st_size != wanted[name]:
            objects.fetch(name, paths.root / name)
    for name, source in manifest.changing.items():
        path = paths.root / name
        if not path.exists() or committed_name(name, path.read_bytes()) != source:
            objects.fetch(source, path)
    for path in (paths.trials, paths.spec_json, paths.grid_yaml):
        if path.relative_to(paths.root).as_posix() not in manifest.changing:
            path.unlink(missing_ok=True)
    for name in here.keys() - wanted.keys():
        if not keep or here[name].suffix == ".parquet":
            here[name].unlink(missing_ok=True)
