"""Where a run's numbers come from: machines, versions, code, and how each arm was set, from the table of trials."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from ablate.design.spec import GridSpec
from ablate.record.reader import Run
from analysis.digits import plural
from analysis.gap_rows import Rows

UNKNOWN = "not recorded"
MACHINE = ("host", "cpu_model", "capability", "device")
VERSIONS = ("python", "torch", "numpy", "ablate")
SETTINGS = ("threads_set", "threads_used", "precision", "onednn", "deterministic")


def machines(recorded: pa.Table, grid: GridSpec) -> Rows:
    """Return each machine that trials ran on, and which arms those were."""
    names = [name for name in MACHINE if name in recorded.column_names]
    found: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in recorded.to_pylist():
        found.setdefault(tuple(_text(row.get(name)) for name in names), []).append(row)
    rows = []
    for key, own in sorted(found.items()):
        arms = [name for name in grid.arms if any(row["arm"] == name for row in own)]
        rows.append((*key, ", ".join(arms), f"{len(own)}"))
    heads = {"host": "machine", "cpu_model": "processor", "capability": "instruction set"}
    return Rows((*(heads.get(name, name) for name in names), "arms", "trials"), len(names) + 1, tuple(rows))


def versions(recorded: pa.Table) -> list[tuple[str, str]]:
    """Return versions and code; several of one kind are all named."""
    rows = recorded.to_pylist()
    found = [(name, _all(row.get(name) for row in rows)) for name in VERSIONS]
    commits = sorted({(row.get("git_commit") or "", bool(row.get("git_dirty"))) for row in rows})
    words = [f"{commit}{' with uncommitted changes' if dirty else ''}" for commit, dirty in commits if commit]
    found.append(("git commit", "; ".join(words) or UNKNOWN))
    found.append(("trainable's source", _all(row.get("source_hash") for row in rows)))
    starts = [row["started_utc"] for row in rows if row.get("started_utc")]
    if starts:
        found.append(("run", f"{min(starts):%Y-%m-%d %H:%M} to {max(starts):%Y-%m-%d %H:%M} UTC (trials' starts)"))
    seconds = [row["wall_s"] for row in rows if row.get("wall_s") is not None]
    if seconds:
        found.append(("time", f"{sum(seconds):,.0f} s over {plural(len(seconds), 'trial')}"))
    return found


def diffs(run: Run, recorded: pa.Table) -> list[tuple[str, str]]:
    """Return what had been changed since the commits that trials ran from: name and text of each stored diff."""
    if "git_diff" not in recorded.column_names:
        return []
    names = sorted({name for name in recorded["git_diff"].to_pylist() if name})
    return [(name, run.paths.diff(name).read_text(errors="replace")) for name in names if run.paths.diff(name).exists()]


def arm_settings(recorded: pa.Table, grid: GridSpec) -> Rows:
    """Return what each arm's trials found when they read their settings back."""
    rows = []
    for arm in grid.arms:
        own = [row for row in recorded.to_pylist() if row["arm"] == arm]
        own_settings = ", ".join(f"{name}={value}" for name, value in grid.arms[arm].settings.items()) or "-"
        read_back = (_all(row.get(name) for row in own) for name in SETTINGS)
        rows.append((arm, own_settings, *read_back, _environment(own)))
    read = ("threads set", "threads used", "precision", "oneDNN", "deterministic")
    heads = ("arm", "its own settings", *read, "environment")
    return Rows(heads, len(heads), tuple(rows))


def _environment(rows: Sequence[Mapping[str, Any]]) -> str:
    found = list(dict.fromkeys(row["env"] for row in rows if row.get("env")))
    if not found:
        return UNKNOWN
    return "\nor: ".join("\n".join(f"{k}={v}" for k, v in sorted(json.loads(text).items())) for text in found)


def _all(values: Iterable[object]) -> str:
    return ", ".join(dict.fromkeys(_text(value) for value in values if value is not None)) or UNKNOWN


def _text(value: object) -> str:
    if value is None or value == "":
        return UNKNOWN
    return ("no", "yes")[value] if isinstance(value, bool) else str(value)
