"""The paired contrasts of the saddle indicators: first the time spent near saddles, which answers, then the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ablate.design.attainable import LEVEL, smallest_p
from ablate.design.attainable import holm as attainable
from analysis.bca import Interval, mean_interval
from analysis.holm import holm
from analysis.pairing import Array, Sides, pair
from analysis.probed import Probed, firsts
from analysis.saddle_indicators import INDICATORS, SADDLE, UNDECIDED, Indicator, indicator_outcomes, kind_outcomes
from analysis.sign_flip import SignFlip, sign_flip
from analysis.trials import Trial

Decision = Literal["DIFFERENT", "ALIKE", "UNDECIDED"]

ALIKE_WITHIN = 0.1
"""Largest difference in the share of snapshots near saddles at which two arms count as alike: 10 points of 100."""


@dataclass(frozen=True)
class TimeNearSaddles:
    """One contrast's share of snapshots near saddles, other less reference. The unit of replication is the block.

    Attributes:
        contrast: the contrast's label.
        player: whose loss.
        n: blocks with both sides.
        reference: mean share on the reference's side, of those certain.
        other: on the other side.
        undecided: mean share of snapshots whose kind is undecided, on the reference's and on the other side.
        gap: mean of other minus reference, of those certain; None without blocks.
        interval: 95 % interval of it.
        least: lowest end of the interval if every undecided snapshot of the reference, and none of the other, is near a
            saddle; None without one.
        most: highest end of the interval the other way round.
        test: sign-flip test of the gap with the undecided ones counted against it.
        adjusted_p: its p, Holm-adjusted for the contrasts of the study.
        attainable_p: the smallest p, so adjusted, that so many blocks can give; None without blocks.
        decision: DIFFERENT (adjusted p below 0.05, and the interval excludes 0, undecided ones counted against it),
            ALIKE (every interval within 10 points of 0), or UNDECIDED.
    """

    contrast: str
    player: str
    n: int
    reference: float | None
    other: float | None
    undecided: tuple[float, float] | None
    gap: float | None
    interval: Interval
    least: float | None
    most: float | None
    test: SignFlip
    adjusted_p: float | None
    attainable_p: float | None
    decision: Decision


@dataclass(frozen=True)
class IndicatorContrast:
    """One contrast in one indicator: the mean over the compared snapshots, other less reference, paired by block.

    Attributes:
        contrast: the contrast's label.
        player: whose loss.
        indicator: its name in the data set.
        words: what a table calls it.
        share: whether it is a share.
        n: blocks with both sides.
        reference: mean on the reference's side; None without blocks.
        other: on the other side.
        gap: mean of other minus reference; None without blocks.
        interval: 95 % interval of it.
        test: sign-flip test.
        adjusted_p: its p, Holm-adjusted for all contrasts in all of these indicators.
        bound: mean, over the snapshots compared, of the bounds of both sides' values, summed: a gap that is no larger
            may be no difference at all; None where values have no bounds.
        unconverged: edges compared that have not converged.
    """

    contrast: str
    player: str
    indicator: str
    words: str
    share: bool
    n: int
    reference: float | None
    other: float | None
    gap: float | None
    interval: Interval
    test: SignFlip
    adjusted_p: float | None
    bound: float | None
    unconverged: int


@dataclass(frozen=True)
class Compared:
    """A contrast that may be compared, as one player sees it.

    Attributes:
        label: the contrast's.
        player: whose loss.
        sides: reference and other.
        probed: trial id -> its snapshots.
        at: batches compared after.
    """

    label: str
    player: str
    sides: Sides
    probed: Mapping[str, Sequence[Probed]]
    at: Sequence[int]


def time_near_saddles(trials: Sequence[Trial], compared: Sequence[Compared], seed: int) -> tuple[TimeNearSaddles, ...]:
    """Compare the share of snapshots near saddles. The Holm family is all of ``compared``."""
    found = []
    for one in compared:
        certain, possible = (
            pair(trials, kind_outcomes(trials, one.probed, one.at, kinds), one.sides)
            for kinds in ((SADDLE,), (SADDLE, UNDECIDED))
        )
        low, high = certain.other - possible.reference, possible.other - certain.reference
        against = _against(certain.gap, low, high)
        intervals = mean_interval(low, seed), mean_interval(high, seed)
        found.append((one, certain, possible, intervals, against, sign_flip(against, seed)))
    adjusted = holm([test.p for *_, test in found])
    reachable = attainable([smallest_p(len(against)) for *_, against, _ in found])
    reports = []
    for (one, certain, possible, (low, high), against, test), p, best in zip(found, adjusted, reachable, strict=True):
        n = len(certain.gap)
        unknown = (
            (
                float(np.mean(possible.reference - certain.reference)),
                float(np.mean(possible.other - certain.other)),
            )
            if n
            else None
        )
        reports.append(
            TimeNearSaddles(
                contrast=one.label,
                player=one.player,
                n=n,
                reference=_mean(certain.reference),
                other=_mean(certain.other),
                undecided=unknown,
                gap=_mean(certain.gap),
                interval=mean_interval(certain.gap, seed),
                least=low.low,
                most=high.high,
                test=test,
                adjusted_p=p,
                attainable_p=best if n else None,
                decision=_decide(p, mean_interval(against, seed), low.low, high.high),
            )
        )
    return tuple(reports)


def indicator_contrasts(
    trials: Sequence[Trial], compared: Sequence[Compared], seed: int
) -> tuple[IndicatorContrast, ...]:
    """Compare every indicator that was found at all. The Holm family is all contrasts in all of these indicators."""
    found = []
    for one in compared:
        for indicator in INDICATORS:
            if not any(snapshot.first(indicator.name) for own in one.probed.values() for snapshot in own):
                continue
            paired = pair(trials, indicator_outcomes(trials, one.probed, one.at, indicator), one.sides)
            used = [snapshot for match in paired.matches for trial in (match.reference, match.other)
                    for snapshot in one.probed.get(trial.trial_id, ()) if snapshot.batches in one.at]  # fmt: skip
            found.append((one, indicator, paired, used, sign_flip(paired.gap, seed)))
    adjusted = holm([test.p for *_, test in found])
    return tuple(
        IndicatorContrast(
            contrast=one.label,
            player=one.player,
            indicator=indicator.name,
            words=indicator.words,
            share=indicator.share,
            n=len(paired.gap),
            reference=_mean(paired.reference),
            other=_mean(paired.other),
            gap=_mean(paired.gap),
            interval=mean_interval(paired.gap, seed),
            test=test,
            adjusted_p=p,
            bound=_bound(used, indicator),
            unconverged=sum(value.converged is False for value in firsts(used, indicator.name)),
        )
        for (one, indicator, paired, used, test), p in zip(found, adjusted, strict=True)
    )


def _against(gap: Array, low: Array, high: Array) -> Array:
    """Return the gap with undecided snapshots counted against it, shape (blocks,); zeros if that turns it round."""
    if not len(gap):
        return gap
    side = float(np.mean(gap))
    against = low if side > 0 else high if side < 0 else gap
    return against if float(np.mean(against)) * side > 0 else np.zeros_like(gap)


def _decide(adjusted_p: float | None, against: Interval, least: float | None, most: float | None) -> Decision:
    if adjusted_p is not None and adjusted_p < LEVEL and against.excludes(0.0):
        return "DIFFERENT"
    if least is not None and most is not None and least >= -ALIKE_WITHIN and most <= ALIKE_WITHIN:
        return "ALIKE"
    return "UNDECIDED"


def _bound(used: Sequence[Probed], indicator: Indicator) -> float | None:
    if indicator.name == "negative_share":
        bounds = [width for snapshot in used if (width := share_open(snapshot)) is not None]
    else:
        bounds = [value.bound for value in firsts(used, indicator.name) if value.bound is not None]
    return 2 * float(np.mean(bounds)) if bounds else None


def share_open(one: Probed) -> float | None:
    """Return how far the share of negative eigenvalues may be from its value; None if it was not found.

    The larger of its standard error, from the random start, and the distance to the quadrature's brackets: its nodes
    stand for eigenvalues around them, perhaps on both sides of the floor.
    """
    share, low, high = (one.first(name) for name in ("negative_share", "negative_share_low", "negative_share_high"))
    if share is None:
        return None
    ends = [abs(end.value - share.value) for end in (low, high) if end is not None]
    return max([share.bound or 0.0, *ends])


def _mean(values: Array) -> float | None:
    return float(np.mean(values)) if len(values) else None
