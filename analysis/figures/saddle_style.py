"""What the figures of the curvature share: panels of players and cells, colours of kinds, an axis of two signs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from analysis.density_ridges import Array, place, unplace
from analysis.figures.style import Look
from analysis.saddle_points import Trail, trials_a_panel

Colour = tuple[float, float, float]

MOST_PANELS = 6
_PALETTE = sns.color_palette("colorblind", 10)
NEGATIVE: Colour = _PALETTE[3]
POSITIVE: Colour = _PALETTE[0]
KINDS: dict[str, tuple[Colour, str]] = {
    "near a minimum": (_PALETTE[2], ""),
    "near a saddle": (_PALETTE[3], "//"),
    "on a slope": (_PALETTE[9], ".."),
    "undecided": ((0.8, 0.8, 0.8), "xx"),
}
"""Colour and hatching: readers who cannot tell the colours apart, and black ink, have the hatching."""


def panel_title(*parts: str) -> str:
    """Return what a panel is about: its parts that are not empty."""
    return ", ".join(part for part in parts if part)


def not_drawn(titles: Sequence[str], most: int = MOST_PANELS) -> list[str]:
    """Return the sentence of what a page has no room for; nothing if it has."""
    return [f"Not drawn: {'; '.join(titles[most:])}."] if len(titles) > most else []


def name_arms(
    axis: Axes, found: Sequence[Trail], arms: Sequence[str], look: dict[str, Look], size: float, width: float
) -> None:
    """Give the legend of ``axis`` each arm that was looked at, with its trials; ``size`` is a dot's, in points."""
    for arm in arms:
        if n := trials_a_panel(found, arm):
            colour, line, marker = look[arm]
            axis.plot([], [], color=colour, ls=line, marker=marker, ms=size, lw=width, label=f"{arm} (n = {n})")


def two_signs(
    axes: Axes, which: Literal["x", "y"], linear: float, low: float, high: float, most: int = 9, placed: bool = False
) -> None:
    """Make an axis logarithmic on both sides of 0, and label powers of ten.

    Args:
        axes: of a figure.
        which: of its axes.
        linear: up to this size it is nearly linear.
        low: its smallest value.
        high: its largest.
        most: labels at most.
        placed: whether what is drawn has been placed on such an axis already.
    """
    first = int(np.ceil(np.log10(linear) + 0.5))  # so far from 0 that both labels have room
    powers = {side: [power for power in range(first, first + 40) if 10.0**power <= side * end * 1.0001]
              for side, end in ((-1, low), (1, high))}  # fmt: skip
    count = len(powers[-1]) + len(powers[1])
    step = max(1, math.ceil(count / max(most - 1, 1)))
    shown = [(side, power) for side, own in powers.items() for power in own if (power - first) % step == 0]
    ticks = np.array([0.0, *(side * 10.0**power for side, power in shown)])
    labels = ["0", *(f"${'-' if side < 0 else ''}10^{{{power}}}$" for side, power in shown)]
    if not placed:

        def forward(values: Array) -> Array:
            return place(np.asarray(values), linear)

        def back(places: Array) -> Array:
            return unplace(np.asarray(places), linear)

        (axes.set_xscale if which == "x" else axes.set_yscale)("function", functions=(forward, back))
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_ticks(place(ticks, linear) if placed else ticks, labels, fontsize="small")
    axis.set_minor_locator(NullLocator())
