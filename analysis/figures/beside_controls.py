"""Draws outcomes of a contrast's arms and of their controls side by side, each block a line."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.ticker import MaxNLocator

from analysis.control_points import SideBySide
from analysis.figures.captioned import Captioned
from analysis.figures.style import Array, n_words, new_figure, style

NOTHING_BESIDE = "No contrast of arms, and no arm with a control, has an outcome yet."
MOST_PANELS = 6
LABEL_A_PANEL = 28
"""Characters of the axis's label that fit beside one panel."""
LONGEST_NAME = 20
"""Characters of a column's name before it is folded at a hyphen."""
LETTERS_ACROSS = 84
"""Characters that fit below all columns of a panel, side by side."""
MOST_LINES = 300
"""With more lines than this, opaque ones would be one grey area, and dots with a rim one bar."""

CONTROL = (0.45, 0.45, 0.45)


def draw_beside_controls(contrasts: Sequence[SideBySide], outcome: str, population: str) -> Captioned:
    """Draw the contrasts, a row for each.

    Args:
        contrasts: outcomes by block and arm; at least one.
        outcome: the outcome in words, the axis's label.
        population: which seeds, machines and data they speak of.

    Returns:
        Captioned: columns are the reference, the other arm and the controls; contrasts beyond ``MOST_PANELS`` are named
        in the caption.
    """
    shown = contrasts[:MOST_PANELS]
    with style():
        figure = new_figure(0.6 + 2.7 * len(shown))
        axes = figure.subplots(len(shown), 1, squeeze=False)
        for axis, one in zip(axes.flat, shown, strict=False):
            _draw(axis, one)
        figure.supylabel(textwrap.fill(outcome, LABEL_A_PANEL * len(shown)), fontsize="medium")
    return Captioned(figure, "Outcomes of arms and controls, side by side", _caption(contrasts, len(shown), population))


def _draw(axis: Axes, one: SideBySide) -> None:
    palette = sns.color_palette("colorblind", 2)
    values = np.array([[np.nan if value is None else value for value in line] for line in one.lines])
    many = len(values) > MOST_LINES
    if many:
        axis.add_collection(LineCollection(_joined(values), colors="0.5", linewidths=0.6, alpha=0.12, zorder=1))
    for line in () if many else values:
        known = np.flatnonzero(np.isfinite(line))
        axis.plot(known, line[known], color="0.75", lw=0.9, zorder=1)
    dots: dict[str, Any] = {"alpha": 0.25, "s": 9, "linewidth": 0} if many else {"alpha": 0.7, "s": 34}
    for at, (_, control) in enumerate(one.columns):
        known = values[:, at][np.isfinite(values[:, at])]
        colour = CONTROL if control else palette[at]
        sns.scatterplot(x=[at] * len(known), y=known, color=colour, ax=axis, zorder=3, **dots)
        if len(known) == len(values):  # over fewer blocks a mean is not comparable
            axis.plot([at - 0.16, at + 0.16], [known.mean()] * 2, color="black", lw=2.2, zorder=4)
    counts = np.isfinite(values).sum(axis=0)
    heads = [_head(*column, n, len(counts)) for column, n in zip(one.columns, counts, strict=True)]
    axis.set_xticks(range(len(one.columns)), heads)
    axis.set_xlim(-0.5, len(one.columns) - 0.5)
    axis.set_title(one.label, fontsize="medium")
    axis.set(xlabel="", ylabel="")
    axis.grid(axis="x", visible=False)
    axis.yaxis.set_major_locator(MaxNLocator(5))


def _joined(values: Array) -> list[Array]:
    """Return each line's corners, shape (known columns, 2), of outcomes of shape (lines, columns)."""
    columns = np.arange(values.shape[1])
    return [np.column_stack((columns, line))[np.isfinite(line)] for line in values]


def _head(name: str, control: str, n: int, columns: int) -> str:
    folded = textwrap.fill(name, LONGEST_NAME)
    below = f"({f'{control} control, ' if control else ''}n = {n})"
    if len(below) > LETTERS_ACROSS // columns:
        below = below.replace(", ", ",\n")
    return f"{folded}\n{below}"


def _caption(contrasts: Sequence[SideBySide], shown: int, population: str) -> str:
    blocks = n_words([len(one.lines) for one in contrasts[:shown]], "line")
    parts = [
        f"A dot is one trial; a line joins the trials of one block ({blocks}); bar: mean, where no block lacks. An A/A "
        "control repeats an arm, so its dots lie level with that arm's; a one-ulp control shows what rounding alone "
        "does to each block."
    ]
    if len(contrasts) > shown:
        parts.append(f"Not drawn: {'; '.join(one.label for one in contrasts[shown:])}.")
    return " ".join([*parts, population])
