"""Integrity of probes: each value is there once, its trial too, and what is compared was looked at alike."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from ablate.design.spec import level_text
from ablate.record.finding import Finding
from ablate.record.probe_intake import to_look_again
from ablate.record.reader import Run
from ablate.record.trial_table import FINISHED

_LOST = "restore the data set from a copy; no loss or verdict changes"

_OF_OTHERS = ("projection", "projection_loss")
"""Values that a snapshot's surface holds of every other snapshot, which ``text`` names."""


def probes(run: Run, trials: Mapping[str, Mapping[str, Any]], *, writing: bool) -> Iterator[Finding]:
    """C13: rows belong to no finished trial, or are there twice. C14: what is compared was not looked at alike."""
    table = run.probes(["trial_id", "batches", "player", "name", "position", "text"])
    rows = zip(*(table[name].to_pylist() for name in table.column_names), strict=True)
    keys = ((*key, text if key[3] in _OF_OTHERS else None) for *key, text in rows)
    owners: Counter[str] = Counter()
    for (trial_id, batches, player, name, position, _), count in sorted(Counter(keys).items(), key=str):
        owners[trial_id] += count
        if count > 1:
            what = f"{name}{'' if position is None else f'[{position}]'} of {player}"
            where = f"trial {trial_id}, after {batches} batches"
            yield Finding("C13", "error", where, f"{what} is there {count} times", _LOST)
    finished = {trial_id for trial_id, row in trials.items() if row["status"] in FINISHED}
    for trial_id in () if writing else sorted(owners.keys() - finished):
        found = f"no finished trial owns its {owners[trial_id]} rows of probes"
        yield Finding("C13", "error", f"trial {trial_id}", found, "`ablate launch` deletes them")
    yield from _looked_alike(run)


def _looked_alike(run: Run) -> Iterator[Finding]:
    """C14; a factor's level may change the data by design, an arm may not."""
    advice = f"{to_look_again(run.uri)}: everything is then looked at again, alike"
    factors = list(run.grid.factors)
    table = run.probes(["arm", "probe_hash", "mode", *(f"factor.{name}" for name in factors)])
    data: dict[tuple[Any, ...], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    modes: dict[tuple[Any, ...], set[str]] = defaultdict(set)
    for arm, digest, mode, *here in set(zip(*(table[name].to_pylist() for name in table.column_names), strict=True)):
        data[tuple(here)][str(digest)].add(arm)
        modes[tuple(here)].add(str(mode))
    for levels in sorted(data, key=str):
        named = zip(factors, levels, strict=True)
        where = ", ".join(f"{name}={level_text(level)}" for name, level in named if level is not None)
        where = where or str(run.paths.probes)
        if len(data[levels]) > 1:
            sets = ", ".join(
                f"{digest} (arm {', '.join(sorted(arms))})" for digest, arms in sorted(data[levels].items())
            )
            found = f"probes looked at {len(data[levels])} sets of data: {sets}"
            yield Finding("C14", "error", where, found, advice)
        if len(modes[levels]) > 1:
            found = f"probes looked at the model in modes {' and '.join(sorted(modes[levels]))}"
            yield Finding("C14", "error", where, found, advice)
