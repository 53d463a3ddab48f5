"""Pairs the two sides of a contrast: within a block, and within it only trials that match in everything else."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ablate.design.matching import match
from ablate.design.spec import Contrast, GridSpec, level_text
from ablate.design.trial_spec import Scalar
from analysis.outcomes import Outcome
from analysis.trials import Trial

Array = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class Sides:
    """The two sides of a contrast: other minus reference.

    Attributes:
        contrast: as the grid resolved it.
        arms: arms that take part; a factor contrast leaves control arms out.
    """

    contrast: Contrast
    arms: frozenset[str]

    @classmethod
    def of(cls, contrast: Contrast, grid: GridSpec) -> Sides:
        """Return the sides of one of the grid's contrasts."""
        plain = frozenset(name for name, arm in grid.arms.items() if not arm.control)
        return cls(contrast, frozenset(contrast.arms) if contrast.arms else plain)

    @property
    def column(self) -> str:
        """The column whose levels are compared: ``arm`` or a factor's name."""
        return self.contrast.factor or "arm"

    @property
    def levels(self) -> tuple[Scalar, Scalar]:
        """The levels of reference and other."""
        return self.contrast.arms or self.contrast.levels or ("", "")

    @property
    def labels(self) -> tuple[str, str]:
        """What reference and other are called: ``arm NAME``, or ``FACTOR = LEVEL``."""
        link = f"{self.contrast.factor} =" if self.contrast.factor else "arm"
        reference, other = (f"{link} {level_text(level)}" for level in self.levels)
        return reference, other


@dataclass(frozen=True)
class Match:
    """Two trials of one block that differ in the contrast's column only, whatever came of them."""

    block: int
    reference: Trial
    other: Trial


def by_block(matches: Iterable[Match]) -> dict[int, list[Match]]:
    """Return matches by their block, in their order."""
    found: dict[int, list[Match]] = defaultdict(list)
    for one in matches:
        found[one.block].append(one)
    return found


@dataclass(frozen=True)
class Pair:
    """One block's two outcomes, each the mean over ``cells`` matched trials."""

    block: int
    reference: float
    other: float
    cells: int


@dataclass(frozen=True)
class Dropped:
    """A trial that a contrast had to leave out."""

    trial: Trial
    reason: str


@dataclass(frozen=True)
class Pairing:
    """Everything a contrast rests on, blocks ascending.

    Attributes:
        matches: every matched pair of planned trials.
        pairs: one per block with at least one match that has both outcomes.
        dropped: each trial of either side that did not enter ``pairs``, with the reason.
    """

    matches: tuple[Match, ...]
    pairs: tuple[Pair, ...]
    dropped: tuple[Dropped, ...]

    @property
    def reference(self) -> Array:
        """Outcomes of the reference, shape (blocks,)."""
        return np.array([pair.reference for pair in self.pairs], dtype=np.float64)

    @property
    def other(self) -> Array:
        """Outcomes of the other side, shape (blocks,)."""
        return np.array([pair.other for pair in self.pairs], dtype=np.float64)

    @property
    def gap(self) -> Array:
        """Other minus reference, shape (blocks,)."""
        return self.other - self.reference


@dataclass(frozen=True)
class Matching:
    """What a contrast compares, whatever comes of it: matched trials, blocks ascending, and those without a partner."""

    sides: Sides
    matches: tuple[Match, ...]
    alone: tuple[tuple[Trial, bool], ...]


def matching(trials: Iterable[Trial], sides: Sides) -> Matching:
    """Match the trials of both sides by block and cell; which do is said in ``ablate.design.matching``.

    Args:
        trials: all planned trials of the study.
        sides: what to compare.
    """
    own = ((trial, trial.arm, dict(trial.factors), trial.block) for trial in trials if trial.arm in sides.arms)
    found = match(sides.contrast, own)
    pairs = sorted(found.pairs, key=lambda pair: (pair[0].block, str(pair[0])))
    return Matching(sides, tuple(Match(mine.block, mine, theirs) for mine, theirs in pairs), tuple(found.alone))


def pair(trials: Iterable[Trial], outcomes: Mapping[str, Outcome], sides: Sides) -> Pairing:
    """Pair the trials of both sides by block and cell, as ``matching`` and ``with_outcomes`` do."""
    return with_outcomes(matching(trials, sides), outcomes)


def with_outcomes(matched: Matching, outcomes: Mapping[str, Outcome]) -> Pairing:
    """Pair the outcomes of matched trials.

    A block's value is the mean over its matches that have an outcome on both sides, so a trial lost on one side takes
    its partner with it and never tilts the gap.

    Args:
        matched: the trials.
        outcomes: by trial id.

    Returns:
        Pairing: nothing left out without a reason in ``dropped``.
    """
    by_block: dict[int, list[Match]] = defaultdict(list)
    lost = []
    for one in matched.matches:
        reasons = _reasons(one, outcomes)
        lost += reasons
        if not reasons:
            by_block[one.block].append(one)
    lost += [
        Dropped(trial, f"no partner: {matched.sides.labels[not on_other]} is not planned for this block and cell")
        for trial, on_other in matched.alone
    ]
    pairs = tuple(_average(block, members, outcomes) for block, members in sorted(by_block.items()))
    return Pairing(matched.matches, pairs, tuple(sorted(lost, key=lambda d: (d.trial.block, str(d.trial)))))


def _reasons(match: Match, outcomes: Mapping[str, Outcome]) -> list[Dropped]:
    """Return why a match has no gap: a trial has no outcome, and its partner goes with it; empty if both have one."""
    mine, theirs = outcomes[match.reference.trial_id], outcomes[match.other.trial_id]
    if not mine.reason and not theirs.reason:
        return []
    return [
        Dropped(match.reference, mine.reason or f"its partner, {match.other}, has no outcome"),
        Dropped(match.other, theirs.reason or f"its partner, {match.reference}, has no outcome"),
    ]


def _average(block: int, matches: list[Match], outcomes: Mapping[str, Outcome]) -> Pair:
    reference = [_value(outcomes[match.reference.trial_id]) for match in matches]
    other = [_value(outcomes[match.other.trial_id]) for match in matches]
    return Pair(block, math.fsum(reference) / len(matches), math.fsum(other) / len(matches), len(matches))


def _value(outcome: Outcome) -> float:
    assert outcome.value is not None, "kept matches have both outcomes"
    return outcome.value
