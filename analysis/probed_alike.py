"""Whether two trials were looked at alike: on the same probe set, in the same precision and mode."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from analysis.pairing import Match
from analysis.probed import Conditions, Probed

MUST_AGREE = {"probe_hash": "probe sets", "dtype": "precisions", "mode": "modes of the model"}
"""Fields of ``Conditions`` without which two curvatures are not of the same function, or not equally sharp."""


def unlike(matches: Sequence[Match], probed: Mapping[str, Sequence[Probed]]) -> str:
    """Return why the sides of a contrast must not be compared; empty if they may.

    Args:
        matches: pairs of trials.
        probed: trial id -> its snapshots as one player sees them.
    """
    for match in matches:
        mine, theirs = (_conditions(probed.get(one.trial_id, ())) for one in (match.reference, match.other))
        if not mine or not theirs:
            continue
        for field, words in MUST_AGREE.items():
            here, there = (sorted({str(getattr(one, field)) for one in side}) for side in (mine, theirs))
            if len({*here, *there}) > 1:
                return (
                    f"they were looked at with different {words}: {match.reference} with {_listed(here)}, "
                    f"{match.other} with {_listed(there)}"
                )
    return ""


def conditions_words(probed: Iterable[Probed]) -> str:
    """Return how a run was looked at: ``256 samples (probe set 0a1b2c), float64 on cpu, mode train``, and what else."""
    return "; and ".join(dict.fromkeys(_words(one.conditions) for one in probed))


def _words(one: Conditions) -> str:
    samples = "an unknown number of" if one.samples is None else f"{one.samples:,}"
    data = f"{samples} samples (probe set {one.probe_hash[:12] or 'unknown'})"
    return f"{data}, {one.dtype} on {one.device}, mode {one.mode}"


def _conditions(probed: Iterable[Probed]) -> list[Conditions]:
    return list(dict.fromkeys(one.conditions for one in probed))


def _listed(values: Sequence[str]) -> str:
    return " and ".join(value[:12] or "an unknown one" for value in values)
