"""Draws spectral densities over training as ridgelines, a panel for each arm, negative curvature in its own colour."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.axes import Axes

from analysis.density_ridges import WIDTH, Ridges, Spectra, unplace
from analysis.digits import number, plural
from analysis.figures.captioned import Captioned
from analysis.figures.saddle_style import MOST_PANELS, NEGATIVE, POSITIVE, Colour, not_drawn, panel_title, two_signs
from analysis.figures.style import GREY, n_words, new_figure, style

NO_DENSITIES = "No spectral density was recorded (`density: 0`)."
OVERLAP = 1.35
"""Height of the highest ridge, in steps from one ridge to the next."""

LABELS = {1: 11, 2: 6, 3: 4}
"""Numbers on an axis that there is room for, by panels side by side."""

LIGHT = 0.45
"""Share of white in a ridge's colour."""


def draw_ridgelines(spectra: Spectra, several: bool, population: str) -> Captioned:
    """Draw the densities.

    Args:
        spectra: of all arms.
        several: whether there are several players.
        population: which seeds, machines and data they speak of.
    """
    shown = spectra.arms[:MOST_PANELS]
    titles = [panel_title(one.arm, one.cell, f"player {one.player}" if several else "") for one in spectra.arms]
    across = 3 if len(shown) == 3 else min(2, len(shown))
    down = math.ceil(len(shown) / across)
    most = max(len(one.ridges) for one in shown)
    peak = max(_decades(one).max() for one in shown)
    with style():
        figure = new_figure(0.9 + down * (0.9 + 0.42 * most))
        axes = figure.subplots(down, across, sharex=True, squeeze=False)
        for axis, one, title in zip(axes.flat, shown, titles, strict=False):
            _draw(axis, one, spectra, peak, LABELS[across])
            axis.set_title(title, fontsize="medium" if len(title) < 32 else "small")
        for axis in axes.flat[len(shown) :]:
            axis.set_visible(False)
        for at, axis in enumerate(axes.flat[: len(shown)]):
            last = at + across >= len(shown)
            axis.tick_params(labelbottom=last)
        figure.supxlabel("eigenvalue (log scale, both signs)", fontsize="medium")
        figure.supylabel("batches trained", fontsize="medium")
    return Captioned(figure, "Spectral density over training", _caption(spectra, titles, peak, population))


def _decades(one: Ridges) -> np.ndarray:
    """Return each ridge's height in decades above half a single eigenvalue's, shape (ridges, points)."""
    heights = np.stack([ridge.height for ridge in one.ridges])
    return np.log10(np.maximum(heights, one.single / 2) / (one.single / 2))


def _draw(axis: Axes, one: Ridges, spectra: Spectra, peak: float, labels: int) -> None:
    places, decades = spectra.axis, _decades(one)
    zero, floor = 0.0, spectra.place(-spectra.linear)
    for at, height in enumerate(decades):
        base = -at
        top = base + OVERLAP * height / peak
        order = 2 * at + 2
        axis.fill_between(places, base, top, where=places >= zero, color=_light(POSITIVE), lw=0, zorder=order)
        axis.fill_between(places, base, top, where=places <= zero, color=_light(NEGATIVE), lw=0, zorder=order)
        axis.plot(places, top, color="0.2", lw=0.9, zorder=order + 1)
    axis.axvline(zero, color=GREY, lw=0.8, zorder=1)
    axis.axvline(floor, color="0.2", lw=1, ls=":", zorder=2 * len(decades) + 4)
    count = len(decades)
    axis.set_yticks([-at for at in range(count)], [f"{ridge.batches:,}" for ridge in one.ridges], fontsize="small")
    axis.set_ylim(-count + 0.9, OVERLAP + 0.1)
    axis.set_xlim(places[0], places[-1])
    axis.grid(axis="y", visible=False)
    low, high = unplace(places[[0, -1]], spectra.linear)
    two_signs(axis, "x", spectra.linear, low, high, most=labels, placed=True)


def _light(colour: Colour) -> Colour:
    red, green, blue = (LIGHT + (1 - LIGHT) * part for part in colour)
    return red, green, blue


def _caption(spectra: Spectra, titles: list[str], peak: float, population: str) -> str:
    counts = [ridge.trials for one in spectra.arms for ridge in one.ridges]
    parts = [
        f"A ridge is the mean density of {n_words(counts, 'trial')} after so many batches; its "
        f"height is logarithmic and begins at half of what one eigenvalue of one trial gives, the highest ridge is "
        f"10^{peak:.1f} times that. Orange: negative eigenvalues. The dotted line is minus the smallest floor, "
        f"{number(spectra.linear, 2)}, below which the axis is nearly linear. Smoothed on this axis by a Gaussian of "
        f"{WIDTH} decades (a factor of {10**WIDTH:.1f}); what lies between converged edges is a quadrature of few "
        "nodes, so its single bumps mean nothing."
    ]
    if left := max(one.left_out for one in spectra.arms):
        parts.append(f"{plural(left, 'snapshot')} in between not drawn.")
    return " ".join([*parts, *not_drawn(titles), population])
