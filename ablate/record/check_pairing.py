"""Integrity of the comparison: arms of a block began equal and saw the same data; all trials ran the same code."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow.compute as pc

from ablate.record.finding import Finding, Severity
from ablate.record.reader import Run

_WHOLE_TRIAL = {
    "initial_hash": "initial weights",
    "data_hash": "data set",
    "draw_hash": "draws",
}
_PER_BATCH = {"order_hash": "data order", "content_hash": "batch contents"}
_Trials = Mapping[str, Mapping[str, Any]]


def pairing(run: Run, trials: _Trials) -> Iterator[Finding]:
    """C5: arms of one block and equal levels differ in what must be the same before any arithmetic.

    An error between arms with equal settings; a note between arms whose settings differ, which may explain it.
    """
    seen = _first_hashes(run)
    for cell, members in _cells(run, trials).items():
        reference = members[0]
        for other in members[1:]:
            finding = _compare(run, cell, trials[reference], trials[other], seen)
            if finding is not None:
                yield finding


def mixed_code(trials: _Trials) -> Iterator[Finding]:
    """C9: trials were run by different code; by another torch or ablate, only within an arm is that unplanned."""
    yield from _mixed("all trials", "source_hash", trials.values())
    by_arm: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in trials.values():
        by_arm[row["arm"]].append(row)
    for arm, rows in sorted(by_arm.items()):
        for column in ("torch", "ablate"):
            yield from _mixed(f"arm {arm}", column, rows)


def moved(trials: _Trials) -> Iterator[Finding]:
    """C12: a trial's batches were computed on more than one machine, so its arm's machine is mixed."""
    for trial_id, row in trials.items():
        if earlier := row.get("moved_from"):
            where = f"trial {trial_id} (arm {row['arm']}, block {row['block']})"
            advice = "a gap in its pairs may be the machines': launch into another folder to have it on one"
            yield Finding("C12", "note", where, f"continued on {row['host']} after {earlier}", advice)


def _mixed(where: str, column: str, rows: Any) -> Iterator[Finding]:
    values = sorted({row[column] for row in rows if row[column] is not None})
    if len(values) > 1:
        advice = "launch into another folder to have all trials under one version"
        yield Finding("C9", "note", where, f"mixed code: {column} is {', '.join(values)}", advice)


def _cells(run: Run, trials: _Trials) -> dict[str, list[str]]:
    """Group the trials that must be paired: same block, same levels; in the grid's order of arms."""
    rank = {arm: place for place, arm in enumerate(run.grid.arms)}
    cells: dict[str, list[str]] = defaultdict(list)
    for trial_id in sorted(trials, key=lambda i: rank.get(trials[i]["arm"], len(rank))):
        row = trials[trial_id]
        levels = [f"{name}={row[f'factor.{name}']}" for name in run.grid.factors]
        cells[", ".join([f"block {row['block']}", *levels])].append(trial_id)
    return cells


def _compare(run: Run, cell: str, one: Mapping[str, Any], two: Mapping[str, Any], seen: Any) -> Finding | None:
    where, different = cell, ""
    for column, words in _WHOLE_TRIAL.items():
        if column == "draw_hash" and one["batches"] != two["batches"]:
            continue
        if None not in (one[column], two[column]) and one[column] != two[column]:
            different = words
            break
    else:
        for column, words in _PER_BATCH.items():
            mine, others = (seen[column].get(row["trial_id"], {}) for row in (one, two))
            batches = sorted(k for k in mine.keys() & others.keys() if mine[k] != others[k])
            if batches:
                where, different = f"{cell}, batch {batches[0]}", words
                break
    if not different:
        return None
    equal = _settings(run, one["arm"]) == _settings(run, two["arm"])
    severity: Severity = "error" if equal else "note"
    advice = "their gap is CONFOUNDED" + ("" if equal else ", unless the arms' different settings are the question")
    return Finding("C5", severity, where, f"{different} differ between arms {one['arm']!r} and {two['arm']!r}", advice)


def _settings(run: Run, arm: str) -> str:
    spec = run.grid.arms.get(arm)
    return json.dumps(spec.settings, sort_keys=True) if spec is not None else ""


def _first_hashes(run: Run) -> dict[str, dict[str, dict[int, int]]]:
    """Return column -> trial -> batch -> hash, for the batches that carry one."""
    hashes: dict[str, dict[str, dict[int, int]]] = {}
    for column in _PER_BATCH:
        table = run.batches(["trial_id", "batch_index", column], pc.field(column).is_valid())
        by_trial: dict[str, dict[int, int]] = defaultdict(dict)
        rows = zip(*(table[name].to_pylist() for name in table.column_names), strict=True)
        for trial_id, batch_index, value in rows:
            by_trial[trial_id][batch_index] = value
        hashes[column] = by_trial
    return hashes
