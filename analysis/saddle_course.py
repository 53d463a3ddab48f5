"""The curvature of each arm over training: medians and ranges over its blocks, and what kind of point it is at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.cells import Cell, cell_words, in_grid_order
from analysis.probed import GAME, Probed, firsts, players
from analysis.saddle_indicators import KINDS

NAMES = (
    "loss",
    "lambda_max",
    "lambda_min",
    "negative_share",
    "negative_share_low",
    "negative_share_high",
    "gradient_negative_share",
    "gradient_captured",
    "negativity_ratio",
    "gradient_norm",
    "floor",
)
"""Values that a stage sums up, as the data set calls them."""


@dataclass(frozen=True)
class Spread:
    """One value over the trials of a stage.

    Attributes:
        n: trials that have it.
        middle: median.
        low: smallest.
        high: largest.
        bound: largest bound or standard error of any; None where none has one.
        unconverged: edges that have not converged.
    """

    n: int
    middle: float
    low: float
    high: float
    bound: float | None
    unconverged: int


@dataclass(frozen=True)
class Stage:
    """An arm after so many batches.

    Attributes:
        batches: trained on.
        trials: looked at.
        values: name -> spread; what no trial has is left out.
        kinds: kind of point -> trials, every kind.
    """

    batches: int
    trials: int
    values: Mapping[str, Spread]
    kinds: Mapping[str, int]


@dataclass(frozen=True)
class Course:
    """One arm in one cell of the factors, as one player sees it.

    Attributes:
        arm: its name.
        cell: levels of the factors, in words; empty without.
        player: the player's name.
        trials: looked at.
        stages: by ascending batches.
        kinds: kind of point -> snapshots after training began, every kind.
        evidence: for the last undecided snapshot among those; empty if there is none.
    """

    arm: str
    cell: str
    player: str
    trials: int
    stages: tuple[Stage, ...]
    kinds: Mapping[str, int]
    evidence: str

    @property
    def snapshots(self) -> int:
        """Snapshots after training began."""
        return sum(self.kinds.values())


@dataclass(frozen=True)
class GameStage:
    """The eigenvalues of the game Jacobian of one arm after so many batches.

    Attributes:
        arm: its name.
        cell: levels of the factors, in words.
        batches: trained on.
        trials: looked at.
        eigenvalues: found in all of them.
        smallest_real: the smallest real part; below 0, simultaneous gradient descent moves away in that direction.
        largest_imaginary: the largest imaginary part in size: how fast the players turn around each other.
    """

    arm: str
    cell: str
    batches: int
    trials: int
    eigenvalues: int
    smallest_real: float
    largest_imaginary: float


def courses(
    probed: Sequence[Probed], arms: Iterable[str], factors: Mapping[str, Sequence[object]]
) -> tuple[Course, ...]:
    """Return the courses, in the grid's order, players last.

    Args:
        probed: all snapshots.
        arms: in the grid's order.
        factors: the grid's, for the order of cells.
    """
    found = []
    for player in players(probed):
        for arm, cell in groups(probed, arms, factors):
            own = [one for one in probed if (one.player, one.arm, one.cell) == (player, arm, cell)]
            if own:
                found.append(_course(own))
    return tuple(found)


def games(
    probed: Sequence[Probed], arms: Iterable[str], factors: Mapping[str, Sequence[object]]
) -> tuple[GameStage, ...]:
    """Return what is known of the game Jacobian, in the grid's order; nothing if there is one player."""
    found = []
    for arm, cell in groups(probed, arms, factors):
        own = [one for one in probed if (one.player, one.arm, one.cell) == (GAME, arm, cell)]
        for batches in sorted({one.batches for one in own}):
            here = [one for one in own if one.batches == batches]
            real = [value.value for one in here for value in one.values.get("game_real", ())]
            imaginary = [abs(value.value) for one in here for value in one.values.get("game_imag", ())]
            if real and imaginary:
                found.append(GameStage(arm, cell_words(cell), batches, len(here), len(real), min(real), max(imaginary)))
    return tuple(found)


def groups(
    probed: Iterable[Probed], arms: Iterable[str], factors: Mapping[str, Sequence[object]]
) -> list[tuple[str, Cell]]:
    """Return the arms and cells that were looked at, in the grid's order."""
    there = list(probed)
    return [
        (arm, cell)
        for arm in arms
        for cell in in_grid_order((one.cell for one in there if one.arm == arm), dict(factors))  # type: ignore[arg-type]
    ]


def _course(own: Sequence[Probed]) -> Course:
    first = own[0]
    stages = [_stage([one for one in own if one.batches == at]) for at in sorted({one.batches for one in own})]
    after = [one for one in own if one.batches > 0]
    unclear = [one for one in after if one.kind == "undecided"]
    return Course(
        arm=first.arm,
        cell=cell_words(first.cell),
        player=first.player,
        trials=len({one.trial_id for one in own}),
        stages=tuple(stages),
        kinds=_kinds(after),
        evidence=unclear[-1].evidence if unclear else "",
    )


def _stage(here: Sequence[Probed]) -> Stage:
    spreads = {name: spread for name in NAMES if (spread := _spread(here, name)) is not None}
    return Stage(here[0].batches, len(here), spreads, _kinds(here))


def _spread(here: Sequence[Probed], name: str) -> Spread | None:
    values = firsts(here, name)
    if not values:
        return None
    numbers = [value.value for value in values]
    bounds = [value.bound for value in values if value.bound is not None]
    unconverged = sum(value.converged is False for value in values)
    return Spread(
        len(values), float(np.median(numbers)), min(numbers), max(numbers), max(bounds, default=None), unconverged
    )


def _kinds(snapshots: Iterable[Probed]) -> dict[str, int]:
    counts = Counter(one.kind for one in snapshots)
    return {kind: counts[kind] for kind in KINDS}
