"""Draws how the parameters of matched trials part, relative to how far training has moved them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from ablate.record.sketch import RELATIVE_ERROR
from analysis.digits import plural, share
from analysis.figures.captioned import Captioned
from analysis.figures.style import GREY, legend_below, looks, new_figure, style
from analysis.parameter_growth import ParameterGrowth

MOST_SHADED = 4
MOST_MARKED = 40
"""With more sketches than this, a marker at each would hide the line."""

NO_SKETCHES = "No two matched trials with sketches of their parameters have been recorded yet."


def draw_parameter_growth(contrasts: Sequence[ParameterGrowth], population: str) -> Captioned:
    """Draw a line for each contrast whose parameters part.

    Args:
        contrasts: those that were sketched.
        population: which seeds, machines and data they speak of.

    Returns:
        Captioned: contrasts that never part are named in the caption.
    """
    parted = [one for one in contrasts if one.found.differing and len(one.curve.batches)]
    look = looks([one.label for one in contrasts])
    with style():
        figure = new_figure(4.2 + 0.22 * max(len(parted) - 4, 0))
        axis = figure.subplots()
        axis.set_yscale("log")
        for one in parted:
            curve, (colour, line, marker) = one.curve, look[one.label]
            middle = np.where(curve.middle > 0, curve.middle, np.nan)
            kind = f"{one.control} control, " if one.control else ""
            name = f"{one.label} ({kind}n = {plural(one.found.pairs, 'pair')})"
            axis.plot(curve.batches, middle, color=colour, ls="--" if one.control else line, lw=1.8, label=name,
                      marker=marker if len(middle) <= MOST_MARKED else None, ms=5)  # fmt: skip
            if len(parted) <= MOST_SHADED:
                low = np.where(curve.low > 0, curve.low, np.nan)
                axis.fill_between(curve.batches, low, curve.high, where=curve.high > 0, color=colour, alpha=0.12, lw=0)
        if parted:
            longest = max((one.curve for one in parted), key=lambda curve: len(curve.batches))
            axis.plot(longest.batches, longest.floor, color=GREY, lw=1, ls=":")
            _note(axis, "rounding of the sketch", float(longest.floor[-1]))
            axis.set_ylim(top=max(axis.get_ylim()[1], 30))
            axis.axhline(1, color=GREY, lw=1, ls=":")
            _note(axis, "as far as the reference has come", 1)
            legend_below(figure, axis)
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.set_xlabel("batches trained")
        axis.set_ylabel("distance / distance trained\n(log scale)")
    return Captioned(figure, "How far the parameters part", _caption(contrasts, parted, population))


def _note(axis: Axes, words: str, height: float) -> None:
    axis.annotate(words, (1, height), (-3, 3), xycoords=("axes fraction", "data"), textcoords="offset points",
                  ha="right", color=GREY, fontsize="small", annotation_clip=False)  # fmt: skip


def _caption(contrasts: Sequence[ParameterGrowth], parted: Sequence[ParameterGrowth], population: str) -> str:
    equal = [one.label for one in contrasts if one.found.pairs and not one.found.differing]
    parts = []
    if parted:
        parts.append(
            "Line: median over pairs of trials of the Euclidean distance between all their parameters, over the "
            "distance that the reference has come from its initial weights by then."
        )
        if len(parted) <= MOST_SHADED:
            parts.append("Band: smallest to largest pair.")
        parts.append(
            f"Each distance is estimated from two sketches of 256 numbers, to {share(RELATIVE_ERROR)} (one standard "
            "deviation); below the lower dotted line it says nothing."
        )
    if equal:
        parts.append(f"Never apart by more than a sketch's rounding: {'; '.join(equal)}.")
    if other := [one.label for one in contrasts if not one.found.pairs]:
        parts.append(f"Of other shapes on the two sides, so without a distance: {'; '.join(other)}.")
    return " ".join([*parts, population]) if parts else NO_SKETCHES
