"""Draws what the arms made of identical inputs: arms in rows, a column for each input, as in the paper's figure."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes

from analysis.digits import plural
from analysis.figures.captioned import Captioned
from analysis.figures.style import GREY, WIDTH, new_figure, style
from analysis.picture_rows import MOST_COLUMNS, SHARED, Group, PictureRow, groups, scales
from analysis.showing import Showing

MOST_LEFT, NAMES, RIGHT = 1.75, 1.05, 0.95
"""Inches: at most for the arms' names, for the rows' names, and for numbers to the right."""
LETTER = 0.085
"""Inches that a letter of an arm's name takes, about."""
GAP, ARM_GAP, HEAD, FOOT, MOST_HIGH = 0.04, 0.16, 0.34, 0.42, 0.72
"""Inches: between pictures, between arms, for a title, for the scales; a picture's greatest height."""
COLOURS = "inferno"

Image = np.ndarray[Any, Any]


def draw_arm_pictures(shown: Showing, study: str) -> Captioned:
    """Draw the pictures.

    Args:
        shown: one batch of one block.
        study: its name.

    Returns:
        Captioned: what is equal in all arms is drawn once, on top; maps have one colour scale for all arms.
    """
    found = groups(shown.trials)
    rows = [row for group in found for row in group.rows]
    tops, left = scales(rows), _left(rows)
    with style():
        height = HEAD + sum(_group_height(group, left) for group in found) + (FOOT if tops else 0.1)
        figure = new_figure(height)
        figure.set_layout_engine("none")
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_axis_off()
        axes.set_xlim(0, WIDTH)
        axes.set_ylim(height, 0)
        axes.text(0.08, HEAD / 2, f"{study}: after batch {shown.batch}, block {shown.block}", va="center", size=11)
        at = HEAD
        for group in found:
            at = _draw_group(axes, group, at, tops, left)
        _draw_scales(axes, tops, at + FOOT / 2, left)
    return Captioned(
        figure, f"What the arms produce after batch {shown.batch}, block {shown.block}", _caption(shown, rows, tops)
    )


def _draw_group(axes: Axes, group: Group, at: float, tops: dict[str, float], margin: float) -> float:
    """Draw a cell's rows from ``at`` downwards and return where they end."""
    if group.title:
        axes.text(0.08, at + HEAD / 2, group.title, va="center", size=10, style="italic")
        at += HEAD
    for arm, rows in groupby(group.rows, key=lambda row: row.arm):
        begin = at
        for row in rows:
            wide, high = _size(row, margin)
            for column, image in enumerate(_pixels(row, tops)):
                left = margin + NAMES + column * (wide + GAP)
                axes.imshow(image, extent=(left, left + wide, at + high, at), aspect="auto", zorder=2)
            axes.text(margin + NAMES - 0.1, at + high / 2, row.name, ha="right", va="center", size=8.5, color=GREY)
            if row.picture.kind == "map":
                right = margin + NAMES + _columns(row) * (wide + GAP) + 0.06
                axes.text(right, at + high / 2, f"mean {_mean(row)}", va="center", size=8.5, color=GREY)
            at += high + GAP
        words = "\n".join(_wrapped(arm))
        slant = "italic" if arm == SHARED else "normal"
        axes.text(0.08, (begin + at - GAP) / 2, words, va="center", size=10, style=slant)
        axes.plot([margin - 0.02] * 2, [begin, at - GAP], color="0.6", lw=1)
        at += ARM_GAP
    axes.set_xlim(0, WIDTH)  # imshow moves them
    axes.set_ylim(axes.figure.get_size_inches()[1], 0)
    return at


def _draw_scales(axes: Axes, tops: dict[str, float], at: float, margin: float) -> None:
    left = margin + NAMES
    for name, top in tops.items():
        ramp = mpl.colormaps[COLOURS](np.linspace(0, 1, 64))[None]
        axes.text(left - 0.1, at, f"{name}  0", ha="right", va="center", size=8.5, color=GREY)
        axes.imshow(ramp, extent=(left, left + 1.2, at + 0.07, at - 0.07), aspect="auto", zorder=2)
        axes.text(left + 1.28, at, f"{top:.2g} and above", va="center", size=8.5, color=GREY)
        left += 1.2 + 1.2 + NAMES
    axes.set_xlim(0, WIDTH)
    axes.set_ylim(axes.figure.get_size_inches()[1], 0)


def _columns(row: PictureRow) -> int:
    return min(len(row.picture.values), MOST_COLUMNS)


def _wrapped(arm: str) -> list[str]:
    return textwrap.wrap(arm, 20, break_long_words=True)


def _left(rows: Sequence[PictureRow]) -> float:
    """Return the width of the arms' names, in inches."""
    return min(MOST_LEFT, 0.25 + LETTER * max(len(line) for row in rows for line in _wrapped(row.arm)))


def _size(row: PictureRow, margin: float) -> tuple[float, float]:
    """Return the width and height of one picture, in inches."""
    high, wide = row.picture.values.shape[2:]
    most = (WIDTH - margin - NAMES - RIGHT) / _columns(row) - GAP
    scale = min(most / wide, MOST_HIGH / high)
    return wide * scale, high * scale


def _group_height(group: Group, margin: float) -> float:
    arms = len(list(groupby(group.rows, key=lambda row: row.arm)))
    return (HEAD if group.title else 0) + sum(_size(row, margin)[1] + GAP for row in group.rows) + arms * ARM_GAP


def _pixels(row: PictureRow, tops: dict[str, float]) -> list[Image]:
    """Return the pictures as (H, W, 3) in [0, 1]; what is no number is black in an image and grey in a map."""
    values = row.picture.values[:MOST_COLUMNS]
    if row.picture.kind == "map":
        scaled = values[:, 0].astype(np.float64) / tops[row.name]
        coloured: Image = mpl.colormaps[COLOURS](np.ma.masked_invalid(scaled))[..., :3]
        coloured[~np.isfinite(scaled)] = 0.5
        return list(coloured)
    if values.dtype == np.uint8:
        values = values / 255
    images = np.moveaxis(np.nan_to_num(values.astype(np.float64), posinf=1.0).clip(0, 1), 1, -1)
    return list(np.broadcast_to(images, (*images.shape[:3], 3)))


def _mean(row: PictureRow) -> str:
    values = row.picture.values.astype(np.float64)
    finite = values[np.isfinite(values)]
    return f"{finite.mean():.3g}" if finite.size else "-"


def _caption(shown: Showing, rows: Sequence[PictureRow], tops: dict[str, float]) -> str:
    columns = max(map(_columns, rows))
    parts = [f"The columns are {plural(columns, 'fixed input')}; arms that train on the same data see the same ones."]
    if any(row.arm == SHARED for row in rows):
        parts.append("On top: what is equal bit for bit in every arm.")
    if tops:
        parts.append(f"{' and '.join(tops)}: one colour scale for all arms; the mean is over all pixels of the row.")
    if most := max(len(row.picture.values) for row in rows) - MOST_COLUMNS:
        parts.append(f"{most} more columns are not drawn." if most > 0 else "")
    if shown.lacking:
        parts.append(f"No pictures of this batch: {', '.join(shown.lacking)}.")
    return " ".join(part for part in parts if part)
