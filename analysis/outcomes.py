"""The outcome of each trial: one number, the same bits for the same data in whatever order they are read."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from analysis.trials import Trial

LARGEST = 1e150
"""Beyond it, squares leave float64's range; a loss there has diverged in all but name."""


@dataclass(frozen=True)
class Outcome:
    """A trial's outcome.

    Attributes:
        value: finite; None when there is none.
        reason: why there is none; empty when there is one.
    """

    value: float | None
    reason: str = ""


def window_outcomes(
    trials: Iterable[Trial], windows: Mapping[str, list[float | None]], metric: str, last: int
) -> dict[str, Outcome]:
    """Average a metric over the last batches of each trial.

    The sum is exact (``math.fsum``), so equal losses give exactly equal outcomes in whatever order rows are stored.

    Args:
        trials: trials to give an outcome.
        windows: trial id -> values in the outcome's batches.
        metric: column of ``batches``: ``loss`` or ``metric.NAME``.
        last: batches the outcome averages over.

    Returns:
        dict[str, Outcome]: by trial id; without a value for a trial that did not run to its end, lacks rows of the
        window, or has a value in it that is not finite.
    """
    return {trial.trial_id: _mean(trial, windows.get(trial.trial_id, []), metric, last) for trial in trials}


def evaluated_outcomes(trials: Iterable[Trial], recorded: Mapping[str, float | None], name: str) -> dict[str, Outcome]:
    """Take the outcome that the trainable's ``evaluate()`` gave after the last batch.

    Args:
        trials: trials to give an outcome.
        recorded: trial id -> value of ``evaluate.NAME``.
        name: that column's name, for the reasons.

    Returns:
        dict[str, Outcome]: by trial id.
    """
    outcomes = {}
    for trial in trials:
        value = recorded.get(trial.trial_id)
        reason = trial.trouble or (f"{name} was not recorded" if value is None else _unusable(value, name))
        outcomes[trial.trial_id] = Outcome(None if reason else value, reason)
    return outcomes


def _mean(trial: Trial, values: list[float | None], metric: str, last: int) -> Outcome:
    present = [value for value in values if value is not None]
    if trial.trouble:
        return Outcome(None, trial.trouble)
    if len(present) != last:
        return Outcome(None, f"{len(present)} of the outcome's {last} batches have a {metric}")
    try:
        mean = math.fsum(present) / last
    except (OverflowError, ValueError):  # a sum above float64's range; infinities of both signs
        mean = math.inf
    reason = _unusable(mean, metric)
    return Outcome(None if reason else mean, reason)


def _unusable(value: float, name: str) -> str:
    if not math.isfinite(value):
        return f"{name} is not finite in the outcome's batches"
    return f"{name} is {value:.3g}, too large to compare" if abs(value) > LARGEST else ""
