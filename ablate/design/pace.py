"""How fast trials run, as measured somewhere: what a trial, an unwatched and a watched batch cost in seconds."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ablate.design.trial_spec import GuardPlan, Scalar, TrialSpec


@dataclass(frozen=True)
class Pace:
    """Seconds of one trial.

    Attributes:
        start_s: what a trial takes beside its batches: imports, model, first operations, evaluation.
        batch_s: a batch that the guard does not watch.
        watched_s: a batch that it watches.
    """

    start_s: float
    batch_s: float
    watched_s: float

    def trial_s(self, batches: int, guard: GuardPlan) -> float:
        """Return the seconds of a trial of so many batches."""
        watched = sum(map(guard.covers, range(batches)))
        return self.start_s + watched * self.watched_s + (batches - watched) * self.batch_s


@dataclass(frozen=True)
class TimedTrial:
    """A trial whose time was taken.

    Attributes:
        arm: its arm.
        factors: its levels.
        durations: seconds of each batch, in order.
        wall_s: seconds of the whole trial; None if it was cut short.
        guard: which batches were watched.
    """

    arm: str
    factors: Mapping[str, Scalar]
    durations: Sequence[float]
    wall_s: float | None
    guard: GuardPlan

    @property
    def pace(self) -> Pace:
        """The pace it ran at: medians, so that a batch that was held up does not count; the first is a warm-up."""
        later = list(enumerate(self.durations))[1:] or list(enumerate(self.durations))
        watched = [seconds for k, seconds in later if self.guard.covers(k)]
        plain = [seconds for k, seconds in later if not self.guard.covers(k)]
        batch_s = statistics.median(plain or watched)
        pace = Pace(0.0, batch_s, statistics.median(watched) if watched else batch_s)
        spent = self.wall_s if self.wall_s is not None else sum(self.durations)
        return Pace(max(0.0, spent - pace.trial_s(len(self.durations), self.guard)), pace.batch_s, pace.watched_s)


class Paces:
    """The paces of a study's trials: of the same cell if that was timed, else of the same arm, else of all.

    Args:
        source: where the times come from, in words.
        timed: the trials, at least one, each with a batch at least.
    """

    def __init__(self, source: str, timed: Iterable[TimedTrial]) -> None:
        self.source = source
        self._groups: dict[Hashable, list[Pace]] = defaultdict(list)
        for trial in timed:
            for key in _keys(trial.arm, trial.factors):
                self._groups[key].append(trial.pace)

    def of(self, spec: TrialSpec) -> Pace:
        """Return the pace to expect of a trial."""
        group = next(self._groups[key] for key in _keys(spec.arm, spec.factors) if key in self._groups)
        return Pace(*(_median(group, value) for value in (_start, _batch, _watched)))

    def timed(self, arm: str) -> bool:
        """Say whether a trial of this arm was timed."""
        return arm in self._groups


def _keys(arm: str, factors: Mapping[str, Scalar]) -> tuple[Hashable, Hashable, Hashable]:
    return (arm, frozenset(factors.items())), arm, None


def _median(group: Sequence[Pace], value: Callable[[Pace], float]) -> float:
    return statistics.median(map(value, group))


def _start(pace: Pace) -> float:
    return pace.start_s


def _batch(pace: Pace) -> float:
    return pace.batch_s


def _watched(pace: Pace) -> float:
    return pace.watched_s
