"""Finds the store of a run that a user names by its folder or by its study, and says what is near if there is none."""

from __future__ import annotations

import re
from pathlib import Path

from ablate.errors import BadInput, Problem, nearest
from ablate.record.paths import StorePaths

RUNS = "runs"
_ONE_TRIAL = re.compile(r"\.t[0-9a-f]+$")


def find_run(root: Path) -> Path:
    """Return the folder of a run.

    Args:
        root: the folder, or a study's name under ``runs``.

    Raises:
        BadInput: there is none; runs that are near are named.
    """
    for candidate in (root, Path(RUNS) / root):
        if StorePaths(candidate).spec_json.is_file():
            return candidate
    inside, beside = _runs_in(root), _runs_in(root.parent) | _runs_in(Path(RUNS))
    if inside:
        raise BadInput(Problem(str(root), "is no run but holds some", advice=f"runs here: {_listed(inside)}"))
    found = "is no run: it has no spec.json" if root.exists() else "there is no run of this name"
    close = nearest(root.name, (path.name for path in beside.values()))
    advice = f"runs here: {_listed(beside)}" if beside else "`ablate launch grid.yaml` makes one"
    near = next((str(path) for path in beside.values() if path.name == close), "")
    raise BadInput(Problem(str(root), found, nearest=near, advice=advice))


def _listed(runs: dict[Path, Path]) -> str:
    return ", ".join(sorted(map(str, runs.values())))


def _runs_in(folder: Path) -> dict[Path, Path]:
    """Return the runs in a folder; stores of one trial (``<study>.<trial id>``) are no studies."""
    if not folder.is_dir():
        return {}
    return {
        p.resolve(): p
        for p in sorted(folder.iterdir())
        if not _ONE_TRIAL.search(p.name) and StorePaths(p).spec_json.is_file()
    }
