"""The rows of a saddle report's tables as text, for the terminal and for the page alike."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.digits import NONE, interval, number, p_value, signed
from analysis.gap_rows import Rows
from analysis.saddle_answer import points
from analysis.saddle_contrast import IndicatorContrast, TimeNearSaddles
from analysis.saddle_course import Course, GameStage, Spread, Stage
from analysis.saddle_indicators import KINDS

NOT_CONVERGED = "*"


def course_name(one: Course, several: bool) -> str:
    """Return ``arm, cell``, and the player if there are several."""
    parts = (one.arm, one.cell, f"player {one.player}" if several else "")
    return ", ".join(part for part in parts if part)


def kind_rows(courses: Sequence[Course], several: bool) -> Rows:
    """Return of each arm how many snapshots after training began are of each kind."""
    rows = []
    for one in courses:
        total = one.snapshots
        cells = [f"{count}\n{points(count / total)}" if total else NONE for count in one.kinds.values()]
        rows.append((course_name(one, several), str(one.trials), str(total), *cells))
    return Rows(("arm", "trials", "snapshots", *KINDS), 1, tuple(rows))


def stage_rows(one: Course) -> Rows:
    """Return an arm over training: median over blocks with the largest bound, and below it the range over blocks."""
    rows = []
    for stage in one.stages:
        near = f"{stage.kinds['near a saddle']} of {stage.trials}"
        cells = [_spread(stage, name) for name in ("loss", "lambda_max", "lambda_min")]
        rows.append((str(stage.batches), *cells, _share(stage), _spread(stage, "gradient_negative_share"), near))
    columns = (
        "after\nbatches",
        "loss",
        "largest\neigenvalue",
        "smallest\neigenvalue",
        "share below\n-floor",
        "gradient's\nshare there",
        "near a\nsaddle",
    )
    return Rows(columns, 0, tuple(rows))


def time_rows(found: Sequence[TimeNearSaddles], several: bool) -> Rows:
    """Return each contrast's share of snapshots near saddles."""
    rows = []
    for one in found:
        name = f"{one.contrast}, player {one.player}" if several else one.contrast
        shares = [NONE if share is None else points(share) for share in (one.other, one.reference)]
        unknown = f"{points(one.undecided[1])}\n{points(one.undecided[0])}" if one.undecided else NONE
        gap = f"{signed(None if one.gap is None else 100 * one.gap)}\n{_points(one)}"
        tests = (p_value(one.test.p), p_value(one.adjusted_p))
        rows.append((name, str(one.n), "\n".join(shares), unknown, gap, *tests, one.decision))
    columns = (
        "contrast",
        "blocks",
        "near a saddle\nA, then B",
        "undecided\nA, then B",
        "gap in points\n95% interval",
        "p",
        "Holm p",
        "",
    )
    return Rows(columns, 1, tuple(rows))


def indicator_rows(found: Sequence[IndicatorContrast]) -> Rows:
    """Return one contrast's indicators."""
    rows = []
    for one in found:
        mark = NOT_CONVERGED if one.unconverged else ""
        means = f"{number(one.other, 3)}{mark}\n{number(one.reference, 3)}{mark}"
        gap = f"{signed(one.gap)}\n{interval(one.interval)}"
        rows.append(
            (one.words, str(one.n), means, gap, number(one.bound, 2), p_value(one.test.p), p_value(one.adjusted_p))
        )
    columns = ("indicator", "blocks", "means\nA, then B", "gap\n95% interval", "bounds", "p", "Holm p")
    return Rows(columns, 1, tuple(rows))


def game_rows(found: Sequence[GameStage]) -> Rows:
    """Return the game Jacobian of each arm over training."""
    rows = [
        (
            ", ".join(filter(None, (one.arm, one.cell))),
            str(one.batches),
            str(one.trials),
            number(one.smallest_real, 3),
            number(one.largest_imaginary, 3),
        )
        for one in found
    ]
    return Rows(("arm", "after\nbatches", "trials", "smallest\nreal part", "largest\nimaginary part"), 1, tuple(rows))


def _points(one: TimeNearSaddles) -> str:
    low, high = one.interval.low, one.interval.high
    return NONE if low is None or high is None else f"[{signed(100 * low)}, {signed(100 * high)}]"


def _spread(stage: Stage, name: str, bounded: bool = True) -> str:
    one = stage.values.get(name)
    if one is None:
        return NONE
    middle = f"{_bounded(one) if bounded else number(one.middle, 3)}{NOT_CONVERGED if one.unconverged else ''}"
    return middle if one.n == 1 else f"{middle}\n[{number(one.low, 2)}, {number(one.high, 2)}]"


def _share(stage: Stage) -> str:
    """Return the share of negative eigenvalues with what the quadrature leaves open; that is more than its error."""
    low, high = stage.values.get("negative_share_low"), stage.values.get("negative_share_high")
    if low is None or high is None or low.low == high.high:
        return _spread(stage, "negative_share")
    first, *rest = _spread(stage, "negative_share", bounded=False).split("\n")
    return "\n".join([first, *rest, f"({number(low.low, 1)} to {number(high.high, 1)})"])


def _bounded(one: Spread) -> str:
    return number(one.middle, 3) + (f" ±{number(one.bound, 1)}" if one.bound else "")
