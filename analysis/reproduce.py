"""How to make a run again, as commands."""

from __future__ import annotations

import shlex

import pyarrow as pa

from ablate.record.reader import Run


def commands(run: Run, recorded: pa.Table) -> list[str]:
    """Return shell lines that repeat a run and its report; a line that begins with ``#`` says what they cannot do."""
    study = shlex.quote(run.grid.study)
    if run.grid.imported:
        (imported,) = [line[2:] for line in grid_text(run).splitlines() if line.startswith("# ablate ")] or [""]
        return [imported, f"ablate report {study}"]
    lines = []
    commits = sorted({(row["git_commit"] or "", bool(row["git_dirty"])) for row in recorded.to_pylist()})
    known = [commit for commit, _ in commits if commit]
    if known:
        lines.append(f"git checkout {known[-1]}")
    if len(known) > 1:
        lines.append(f"# trials ran at {len(known)} commits: {', '.join(known)}")
    if any(dirty for _, dirty in commits):
        lines.append("# the working tree had uncommitted changes, which this commit does not hold")
    lines += ["ablate launch grid.yaml    # the grid file below", f"ablate check {study}", f"ablate report {study}"]
    return lines


def grid_text(run: Run) -> str:
    """Return the grid file as it was given; empty if it is not there."""
    try:
        return run.paths.grid_yaml.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""
