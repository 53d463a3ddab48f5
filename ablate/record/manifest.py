"""What a store at a URI consists of right now, in one object: its write is the commit.

Files named by their content or attempt are uploaded under their own names. The three that change (grid, resolved
grid, table of trials) are uploaded under a name that holds their hash and, after the commit, under their own as well,
for other tools. A reader that goes by the manifest sees a store between two flushes, never within one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath

from ablate.errors import Problem, StoreError
from ablate.record.paths import StorePaths
from ablate.remote.objects import Objects

NAME = "manifest.json"
COMMITTED = "committed"
JOURNAL = "journal"
CHECKPOINTS = "checkpoints"
UPLOADED_BY_NODES = ("artifact_files/", "reproductions/")
"""Uploaded by nodes before the launching process knows of them: what is there counts, whether or not committed."""


@dataclass(frozen=True)
class Manifest:
    """The files of a store.

    Attributes:
        files: name -> size of those that never change.
        changing: name -> name of the object that holds its present content.
    """

    files: Mapping[str, int] = field(default_factory=dict)
    changing: Mapping[str, str] = field(default_factory=dict)

    def encoded(self) -> bytes:
        """Return it as JSON."""
        return json.dumps(asdict(self), indent=1, sort_keys=True).encode()


def read_manifest(objects: Objects) -> Manifest | None:
    """Read the manifest; None if there is none, as in a store that was copied there by other tools.

    Raises:
        StoreError: if it is damaged or the store refuses.
    """
    content = objects.read(NAME)
    if content is None:
        return None
    try:
        manifest = Manifest(**json.loads(content))
        names = [*manifest.files, *manifest.changing, *manifest.changing.values()]
    except (ValueError, TypeError, AttributeError) as error:
        advice = "delete it: the objects that are there then count"
        raise StoreError(Problem(f"{objects.uri}: {NAME}", f"is damaged ({error})", advice=advice)) from error
    for name in names:
        check_inside(name, objects.uri)
    return manifest


def copied(names: Mapping[str, int], paths: StorePaths) -> Manifest:
    """Return the manifest of a store that has none, from what is there."""
    changing = {name for name in _changing(paths) if name in names}
    folders = {folder.name for folder in data_folders(paths)}
    files = {name: size for name, size in names.items() if name.partition("/")[0] in folders and name not in changing}
    return Manifest(files, {name: name for name in changing})


def check_inside(name: str, uri: str) -> None:
    """Refuse a name that would lead out of the store's folder.

    Raises:
        StoreError: naming it.
    """
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name:
        raise StoreError(Problem(uri, f"names a file outside of the store: {name!r}", advice="do not read this store"))


def data_folders(paths: StorePaths) -> tuple[Path, ...]:
    """Return the folders whose files never change, in the order in which they are uploaded."""
    return (
        paths.initial,
        paths.diffs,
        paths.reproductions,
        paths.artifact_files,
        paths.attempts,
        paths.batches,
        paths.audits,
        paths.artifacts,
        paths.sketches,
        paths.probes,
    )


def lasting_files(paths: StorePaths) -> dict[str, Path]:
    """Return the files of a folder's store that never change, by name, in upload order."""
    found = (path for folder in data_folders(paths) for path in sorted(folder.glob("*")) if path.is_file())
    return {path.relative_to(paths.root).as_posix(): path for path in found if ".tmp" not in path.suffix}


def changing_files(paths: StorePaths) -> dict[str, bytes]:
    """Return the content of the files that change, the table of trials first: rows that it counts are there by then."""
    found = {}
    for name in _changing(paths):
        path = paths.root / name
        if path.exists():
            found[name] = path.read_bytes()
    return found


def committed_name(name: str, content: bytes) -> str:
    """Return the name of the object that holds this content of a file that changes."""
    return f"{COMMITTED}/{hashlib.sha256(content).hexdigest()[:16]}-{PurePosixPath(name).name}"


def _changing(paths: StorePaths) -> list[str]:
    return [p.relative_to(paths.root).as_posix() for p in (paths.trials, paths.spec_json, paths.grid_yaml)]
