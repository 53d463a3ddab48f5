"""Draws a value of the curvature over training: a dot and its bound for each snapshot, a line for each arm's median."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from analysis.density_ridges import place, unplace
from analysis.digits import plural
from analysis.figures.captioned import Captioned
from analysis.figures.saddle_style import name_arms, not_drawn, two_signs
from analysis.figures.style import GREY, LOG_ABOVE, Look, legend_below, looks, new_figure, style
from analysis.probed import Value
from analysis.saddle_points import Trail

MOST_ACROSS = 3
MOST_LABELS = 8
SIDE = 0.012
"""How far arms stand beside each other, in shares of the axis."""


def draw_edges(
    top: Sequence[Trail], bottom: Sequence[Trail], arms: Sequence[str], floor: float | None, population: str
) -> Captioned:
    """Draw both ends of the spectrum.

    Args:
        top: trails of the largest eigenvalue.
        bottom: of the smallest.
        arms: in the grid's order, for the colours.
        floor: smallest floor of all snapshots, up to which the lower panel is linear; None without one.
        population: which seeds, machines and data they speak of.
    """
    panels = list(dict.fromkeys(one.panel for one in (*top, *bottom)))
    shown = panels[:MOST_ACROSS]
    look = looks(list(arms))
    with style():
        figure = new_figure(6.0)
        axes = figure.subplots(2, max(len(shown), 1), sharex=True, sharey="row", squeeze=False)
        for column, panel in enumerate(shown):
            for row, found in enumerate((top, bottom)):
                axis = axes[row, column]
                _draw_panel(axis, [one for one in found if one.panel == panel], arms, look)
                axis.tick_params(labelleft=column == 0)
            axes[0, column].set_title(panel, fontsize="medium")
            axes[1, column].axhline(0, color=GREY, lw=1)
            axes[1, column].set_xlabel("batches trained")
        axes[0, 0].set_ylabel(_scale(axes[0], top, None, "largest eigenvalue"))
        axes[1, 0].set_ylabel(_scale(axes[1], bottom, floor, "smallest eigenvalue"))
        name_arms(axes[0, 0], top or bottom, arms, look, 5, 1.7)
        legend_below(figure, axes[0, 0])
    unconverged = sum(value.converged is False for one in (*top, *bottom) for value in one.values)
    parts = [
        "A dot is one trial's snapshot, its bar the bound: an eigenvalue lies within it. A bar shorter than its dot is "
        "not seen. Line: median over trials.",
        f"Hollow: {plural(unconverged, 'edge')} that had not converged; the true one may lie farther out."
        if unconverged
        else "Every edge had converged.",
        *([f"The lower panel is linear between minus and plus {floor:.2g}, the smallest floor."] if floor else []),
        *not_drawn(panels, MOST_ACROSS),
    ]
    return Captioned(figure, "Edges of the spectrum over training", " ".join([*parts, population]))


def draw_gradient_share(
    found: Sequence[Trail], captured: Sequence[Trail], arms: Sequence[str], floor: str, population: str
) -> Captioned:
    """Draw the gradient's share in directions of negative curvature.

    Args:
        found: trails of that share.
        captured: trails of the gradient's share in the Krylov space.
        arms: in the grid's order, for the colours.
        floor: what counts as negative, in words.
        population: which seeds, machines and data they speak of.
    """
    panels = list(dict.fromkeys(one.panel for one in found))
    shown = panels[:MOST_ACROSS]
    look = looks(list(arms))
    with style():
        figure = new_figure(3.9)
        axes = figure.subplots(1, max(len(shown), 1), sharex=True, sharey=True, squeeze=False)
        for axis, panel in zip(axes[0], shown, strict=False):
            _draw_panel(axis, [one for one in found if one.panel == panel], arms, look)
            axis.set_title(panel, fontsize="medium")
            axis.set_xlabel("batches trained")
        axes[0, 0].set_ylabel("share of the squared gradient")
        low, high = axes[0, 0].get_ylim()
        axes[0, 0].set_ylim(max(low, -0.03 * high), high)
        name_arms(axes[0, 0], found, arms, look, 5, 1.7)
        legend_below(figure, axes[0, 0])
    seen = [value.value for one in captured for value in one.values]
    parts = [
        f"The share of the gradient's squared norm along eigenvectors {floor}. A dot is one trial's snapshot; line: "
        "median over trials. A gradient that lies there drives the loss down along the way out of a saddle.",
        *([f"Seen was {100 * min(seen):.0f}% to {100 * max(seen):.0f}% of it, what lies in the Krylov space."]
          if seen else []),
        *not_drawn(panels, MOST_ACROSS),
    ]  # fmt: skip
    return Captioned(figure, "The gradient's share in negative curvature", " ".join([*parts, population]))


def _draw_panel(axis: Axes, found: Sequence[Trail], arms: Sequence[str], look: dict[str, Look]) -> None:
    present = [arm for arm in arms if any(one.arm == arm for one in found)]
    span = max((max(one.batches) for one in found), default=1) or 1
    for at, arm in enumerate(present):
        colour, line, marker = look[arm]
        own = [one for one in found if one.arm == arm]
        shift = (at - (len(present) - 1) / 2) * SIDE * span
        for one in own:
            x = np.array(one.batches, dtype=float) + shift
            y = np.array([value.value for value in one.values])
            bounds = np.array([value.bound or 0.0 for value in one.values])
            axis.errorbar(x, y, yerr=bounds, fmt="none", ecolor=colour, elinewidth=1.1, alpha=0.6, zorder=2)
            hollow = np.array([value.converged is False for value in one.values])
            axis.plot(x[~hollow], y[~hollow], marker, color=colour, ms=4.5, alpha=0.65, lw=0, zorder=3)
            axis.plot(x[hollow], y[hollow], marker, mfc="white", mec=colour, ms=5, lw=0, zorder=3)
        stages = sorted({batches for one in own for batches in one.batches})
        middle = [
            float(
                np.median([v.value for one in own for b, v in zip(one.batches, one.values, strict=True) if b == stage])
            )
            for stage in stages
        ]
        axis.plot(stages, middle, color=colour, ls=line, lw=1.7, zorder=4)
    every = sorted({batches for one in found for batches in one.batches})
    if len(every) <= MOST_LABELS and min(np.diff(every), default=span) > span / (2 * MOST_LABELS):
        axis.set_xticks(every)
    else:
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))


def _scale(axes: Sequence[Axes], found: Sequence[Trail], floor: float | None, words: str) -> str:
    """Choose a row's scale and return its label: logarithmic, on both sides of 0 where there are two."""
    values = [value.value for one in found for value in one.values]
    sizes = [abs(value) for value in values if value]
    if not sizes or max(sizes) <= LOG_ABOVE * min(sizes):
        return words
    if min(values) > 0:
        axes[0].set_yscale("log")
    else:
        linear = floor or min(sizes)
        reach = [end for one in found for value in one.values for end in _ends(value)]
        low, high = place(np.array([min(0.0, *reach), max(0.0, *reach)]), linear)
        margin = 0.08 * (high - low)
        for axis in axes:
            two_signs(axis, "y", linear, min(values), max(values))
            axis.set_ylim(*unplace(np.array([low - margin, high + margin]), linear))
    return f"{words}\n(log scale)"


def _ends(value: Value) -> tuple[float, float]:
    return value.value - (value.bound or 0.0), value.value + (value.bound or 0.0)
