"""The saddle indicators of a trial: of each one number, its mean over the snapshots after training began."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from analysis.outcomes import LARGEST, Outcome
from analysis.probed import Probed
from analysis.trials import Trial

SADDLE, UNDECIDED = "near a saddle", "undecided"
KINDS = ("near a minimum", SADDLE, "on a slope", UNDECIDED)

NEAR = 0.01
"""Near a critical point: reaching it would change the loss by at most this share (``ablate.curvature.Plan.critical``,
which cannot be read without torch)."""


@dataclass(frozen=True)
class Indicator:
    """What arms are compared in.

    Attributes:
        name: in the ``probes`` data set.
        words: what a table calls it.
        share: whether it is a share.
    """

    name: str
    words: str
    share: bool = False


INDICATORS = (
    Indicator("lambda_max", "largest eigenvalue"),
    Indicator("lambda_min", "smallest eigenvalue"),
    Indicator("negative_share", "share below minus the floor", share=True),
    Indicator("gradient_negative_share", "gradient's share there", share=True),
    Indicator("negativity_ratio", "|smallest| / largest"),
    Indicator("escape_rate", "escape rate per step"),
)


def compared_at(probed: Sequence[Probed]) -> tuple[int, ...]:
    """Return after how many batches trials are compared: those that at least half of them were looked at after.

    The initial weights are left out: every arm has them, and no time was spent there.

    Args:
        probed: snapshots of one player.
    """
    trials = len({one.trial_id for one in probed})
    counts = Counter(batches for batches, _ in {(one.batches, one.trial_id) for one in probed})
    return tuple(sorted(batches for batches, count in counts.items() if batches > 0 and 2 * count >= trials))


def indicator_outcomes(
    trials: Iterable[Trial], probed: Mapping[str, Sequence[Probed]], at: Sequence[int], indicator: Indicator
) -> dict[str, Outcome]:
    """Return each trial's mean of an indicator; none for a trial that lacks a snapshot or the value there.

    Args:
        trials: all planned ones.
        probed: trial id -> snapshots of one player.
        at: batches to average over.
        indicator: which.
    """

    def value(one: Probed) -> float | None:
        found = one.first(indicator.name)
        return None if found is None else found.value

    return _means(trials, probed, at, value, indicator.words)


def kind_outcomes(
    trials: Iterable[Trial], probed: Mapping[str, Sequence[Probed]], at: Sequence[int], kinds: Sequence[str]
) -> dict[str, Outcome]:
    """Return the share of each trial's snapshots that are of these kinds."""
    return _means(trials, probed, at, lambda one: float(one.kind in kinds) if one.kind else None, "kind")


def _means(
    trials: Iterable[Trial],
    probed: Mapping[str, Sequence[Probed]],
    at: Sequence[int],
    value: Callable[[Probed], float | None],
    words: str,
) -> dict[str, Outcome]:
    return {trial.trial_id: _mean(trial, probed.get(trial.trial_id, ()), at, value, words) for trial in trials}


def _mean(
    trial: Trial, own: Sequence[Probed], at: Sequence[int], value: Callable[[Probed], float | None], words: str
) -> Outcome:
    here = {one.batches: one for one in own}
    if not here or not at:
        return Outcome(None, trial.trouble or "not looked at after training began")
    lacking = [str(batches) for batches in at if batches not in here]
    if lacking:
        return Outcome(None, trial.trouble or f"not looked at after batch {', '.join(lacking)}")
    values = [value(here[batches]) for batches in at]
    known = [one for one in values if one is not None]
    if len(known) < len(values):
        return Outcome(None, f"{words} was not found after batch {at[values.index(None)]}")
    mean = math.fsum(known) / len(known) if max(map(abs, known)) <= LARGEST else math.inf
    return Outcome(mean) if math.isfinite(mean) else Outcome(None, f"{words} is too large to compare")
