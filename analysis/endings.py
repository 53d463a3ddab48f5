"""Trials of a contrast that did not run to their end, counted by side: a divergence on one side is a difference too."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.digits import plural
from analysis.pairing import Match
from analysis.trials import Trial

WORDS = {"diverged": "diverged", "failed": "failed", "interrupted": "interrupted", "missing": "not run"}


def endings(matches: Sequence[Match], labels: tuple[str, str]) -> str:
    """Say which trials of a contrast have no outcome because of how they ended.

    Args:
        matches: matched pairs of trials.
        labels: what reference and other are called.

    Returns:
        str: ``arm b: 1 diverged, 2 not run, of 6 trials`` for each side that lacks some; empty if all ran to their end.
    """
    sides = ([match.reference for match in matches], [match.other for match in matches])
    counts = []
    for label, side in zip(labels, sides, strict=True):
        ended = [f"{number} {words}" for status, words in WORDS.items() if (number := len(_ended(side, status)))]
        if ended:
            counts.append(f"{label}: {', '.join(ended)}, of {plural(len(side), 'trial')}")
    if not counts:
        return ""
    diverged = [len(_ended(side, "diverged")) for side in sides]
    unequal = (
        " Diverging more often is a difference in itself; the gap is between those that survived."
        if len(set(diverged)) > 1
        else ""
    )
    return f"Without outcome: {'; '.join(counts)}.{unequal}"


def _ended(side: Sequence[Trial], status: str) -> list[Trial]:
    return [trial for trial in side if trial.status == status]
