"""Batches that trials recorded and that the store no longer has: said before any verdict, which cannot rest on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from analysis.digits import plural
from analysis.trials import Trial


def lost_batches(trials: Iterable[Trial], present: Mapping[str, int], store: Path) -> str:
    """Return a sentence on what is lost; empty if nothing is.

    Args:
        trials: all planned trials.
        present: rows of ``batches`` by trial id, read after the trials, which a launch records last.
        store: the run's folder.
    """
    finished = [trial for trial in trials if trial.status in ("done", "diverged")]
    whole = [trial for trial in finished if not present.get(trial.trial_id)]
    some = [trial for trial in finished if 0 < present.get(trial.trial_id, 0) < trial.batches]
    if not whole and not some:
        return ""
    of = f"of {plural(len(finished), 'trial')} recorded as done"
    parts = [f"{len(whole)} {of} {'has' if len(whole) == 1 else 'have'} no batches here"] if whole else []
    lack = "lacks some of its batches" if len(some) == 1 else "lack some of their batches"
    parts += [f"{len(some)} {lack}" if whole else f"{len(some)} {of} {lack}"] if some else []
    return (
        f"DAMAGED STORE: {', '.join(parts)}. What follows rests on what is left; `ablate check {store}` lists what is "
        "missing, and a copy of `batches/` restores it."
    )
