"""A store at a URI seen by whoever reads it: fetched into a folder of this machine, as of the last commit."""

from __future__ import annotations

from pathlib import Path

from ablate.errors import BadInput, Problem, nearest
from ablate.record.manifest import NAME as MANIFEST
from ablate.record.manifest import read_manifest
from ablate.record.paths import StorePaths
from ablate.record.pull import pull_data
from ablate.remote.location import child, name_of, parent, reading_copy
from ablate.remote.objects import Objects


def fetched(uri: str) -> Path:
    """Fetch what this machine does not have yet of the run at ``uri``, and return the folder that it lies in.

    Raises:
        BadInput: if there is no run; the nearest one is named.
        StoreError: if the store refuses, does not answer, or lacks an object.
    """
    objects = Objects(uri)
    if read_manifest(objects) is None and objects.read("spec.json") is None:
        raise BadInput(_no_run(uri))
    paths = StorePaths(reading_copy(uri))
    paths.root.mkdir(parents=True, exist_ok=True)
    pull_data(objects, paths, also_uncommitted=False)
    return paths.root


def _no_run(uri: str) -> Problem:
    above = Objects(parent(uri))
    beside = [name for name in above.folders() if Objects(child(above.uri, name)).read(MANIFEST) is not None][:20]
    close = nearest(name_of(uri), beside)
    advice = f"runs there: {', '.join(beside)}" if beside else f"`ablate launch grid.yaml --runs {above.uri}` makes one"
    near = child(above.uri, close) if close else ""
    return Problem(uri, "there is no run", nearest=near, advice=advice)
