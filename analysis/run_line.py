"""One line on the run itself: how its trials ended, how long they took, and where."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from analysis.digits import plural
from analysis.endings import WORDS
from analysis.trials import Trial


def run_line(store: Path, trials: Sequence[Trial], recorded: pa.Table, blocks: int) -> str:
    """Return the line.

    Args:
        store: the run's folder.
        trials: all planned trials.
        recorded: the ``trials`` data set.
        blocks: blocks of the study.

    Returns:
        str: ``8 trials over 2 blocks (seeds): 7 done, 1 failed; 3 min of trials' time; host (processor), torch 2.13.0;
        1 trial continued on another machine; store runs/x``; what was not recorded is left out.
    """
    counts = Counter(trial.status for trial in trials)
    ended = [f"{counts[status]} {words}" for status, words in {"done": "done", **WORDS}.items() if counts[status]]
    rows = recorded.to_pylist()
    seconds = [row["wall_s"] for row in rows if row["wall_s"] is not None]
    machines = _all(_machine(row) for row in rows)
    moved = sum(bool(row.get("moved_from")) for row in rows)
    torch = _all(row["torch"] for row in rows)
    seeds = f"{plural(blocks, 'block')} (seed{'' if blocks == 1 else 's'})"
    parts = [
        f"{plural(len(trials), 'trial')} over {seeds}: {', '.join(ended)}",
        f"{_duration(sum(seconds))} of trials' time" if seconds else "",
        ", ".join(filter(None, [machines, f"torch {torch}" if torch else ""])),
        f"{plural(moved, 'trial')} continued on another machine" if moved else "",
        f"store {from_here(store)}",
    ]
    return "; ".join(filter(None, parts))


def _machine(row: dict[str, Any]) -> str:
    kind = ", ".join(filter(None, [row.get("cpu_model"), row.get("gpu")]))
    return " ".join(filter(None, [row.get("host"), f"({kind})" if kind else ""]))


def _all(values: Iterable[str | None]) -> str:
    return " and ".join(dict.fromkeys(value for value in values if value))


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def from_here(store: Path) -> Path:
    """Return the path as a user in this folder would type it."""
    full = store.resolve()
    return full.relative_to(Path.cwd()) if full.is_relative_to(Path.cwd()) else store
