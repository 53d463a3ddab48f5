"""What all figures share: sizes that stay readable on a page, colours that colour-blind readers can tell apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

Array = np.ndarray[Any, np.dtype[np.float64]]

WIDTH = 8.0
"""Inches; a page shows a figure about this wide, so text keeps its size."""

LOG_ABOVE = 20.0
"""Values whose largest is further above the smallest get a logarithmic axis. On a linear one, some 200 points high, the
smallest would stand within 10 points of 0, and steps of half its size within 5: three widths of a line."""

GREY = "0.35"
LINES = ("-", "--", ":", "-.")
MARKERS = ("o", "s", "^", "D", "v", "P")
Look = tuple[tuple[float, float, float], str, str]


@contextmanager
def style() -> Iterator[None]:
    """Draw in the project's style; matplotlib's own settings are as before afterwards."""
    settings = {
        **sns.axes_style("whitegrid"),
        **sns.plotting_context("notebook", font_scale=0.95),
        "grid.color": "0.9",
        "axes.edgecolor": "0.6",
        "figure.constrained_layout.use": True,
        "axes.formatter.useoffset": False,
    }
    with mpl.rc_context(settings):
        yield


def new_figure(height: float) -> Figure:
    """Return an empty figure of the page's width; call inside ``style``."""
    return Figure(figsize=(WIDTH, height), layout="constrained")


def looks(names: Sequence[str]) -> dict[str, Look]:
    """Return a colour, a line and a marker for each name; those that share a colour differ in line and marker."""
    palette = sns.color_palette("colorblind", 10)
    palette = [colour for at, colour in enumerate(palette) if at != 8]  # yellow: too pale on white
    return {
        name: (palette[at % len(palette)], LINES[at // len(palette) % len(LINES)], MARKERS[at % len(MARKERS)])
        for at, name in enumerate(names)
    }


def spread(count: int, width: float) -> Array:
    """Return offsets that keep the dots of a row apart, shape (count,): the golden ratio's, the same every time."""
    offsets: Array = ((np.arange(count) * 0.6180339887498949) % 1.0 - 0.5) * width
    return offsets


def legend_below(figure: Figure, axes: Axes) -> None:
    """Put the legend of one of the axes under the whole figure, where it covers no data."""
    handles, labels = axes.get_legend_handles_labels()
    longest = max(map(len, labels), default=1)
    fitting = max(1, int(WIDTH * 11 / (longest + 7)))
    figure.legend(handles, labels, loc="outside lower center", ncols=min(fitting, len(labels)), frameon=False)


def panels_across(count: int) -> int:
    """Return how many panels stand side by side: two for four, else up to three."""
    return 2 if count in (2, 4) else min(3, max(count, 1))


def n_words(counts: Sequence[int], noun: str = "block") -> str:
    """Return ``7 blocks``, ``2 to 7 blocks``."""
    low, high = min(counts), max(counts)
    many = f"{low}" if low == high else f"{low} to {high}"
    return f"{many} {noun}" + ("" if high == 1 else "s")
