"""Draws the paired differences of every contrast, with the interval of their mean and the equivalence margin."""

from __future__ import annotations

from collections.abc import Sequence

import seaborn as sns
from matplotlib.ticker import PercentFormatter

from analysis.digits import interval_words, percent, signed
from analysis.figures.captioned import Captioned
from analysis.figures.style import GREY, n_words, new_figure, spread, style
from analysis.gap_points import GapPoints, Unit


def draw_paired_gaps(points: Sequence[GapPoints], unit: Unit, outcome: str, population: str) -> Captioned:
    """Draw the contrasts, the study's own in colour, the controls in grey.

    Args:
        points: paired differences by contrast.
        unit: what they are in.
        outcome: the outcome in words.
        population: which seeds, machines and data an interval speaks of.

    Returns:
        Captioned: a row for each contrast, its gap and interval in figures beside it.
    """
    own, control = sns.color_palette("colorblind", 1)[0], (0.45, 0.45, 0.45)
    with style():
        figure = new_figure(1.0 + 0.62 * max(len(points), 2))
        axis = figure.subplots()
        for place, one in enumerate(points):
            if one.margin is not None:
                axis.fill_between(
                    [-one.margin, one.margin], place - 0.42, place + 0.42, color="#e8d9a0", alpha=0.6, lw=0
                )
            colour = control if one.control else own
            sns.scatterplot(
                x=list(one.values), y=place + spread(len(one.values), 0.3), color=colour, alpha=0.6, s=34, ax=axis
            )
            if one.low is not None and one.high is not None:
                axis.plot([one.low, one.high], [place, place], color="black", lw=2, zorder=4)
            axis.plot([one.gap], [place], "|", color="black", ms=13, mew=2.5, zorder=5)
        axis.axvline(0, color=GREY, lw=1)
        axis.set_yticks(range(len(points)), [_row(one) for one in points])
        axis.set_ylim(max(len(points), 1) - 0.5, -0.5)
        axis.grid(axis="y", visible=False)
        beside = axis.secondary_yaxis("right")
        beside.set_yticks(range(len(points)), [_words(one, unit) for one in points])
        beside.tick_params(length=0)
        if unit == "percent":
            axis.xaxis.set_major_formatter(PercentFormatter(1.0, symbol=""))
        axis.set_xlabel("gap (first less second), in % of the second's mean" if unit == "percent"
                        else f"gap (first less second), in units of the {outcome}")  # fmt: skip
        axis.set_ylabel("")
    return Captioned(figure, "Gap of every block", _caption(points, unit, population))


def _row(one: GapPoints) -> str:
    name = one.label if len(one.label) <= 30 else one.label.replace(" against ", " against\n", 1)
    return f"{name}\n({f'{one.control} control, ' if one.control else ''}n = {len(one.values)})"


def _words(one: GapPoints, unit: Unit) -> str:
    show = percent if unit == "percent" else signed
    return f"{show(one.gap)}\n{interval_words(one.low, one.high, unit == 'percent')}".rstrip("\n-")


def _caption(points: Sequence[GapPoints], unit: Unit, population: str) -> str:
    if not points:
        return "No block has an outcome on both sides yet."
    parts = [f"A dot is one block ({n_words([len(one.values) for one in points])}): the outcome of the side named "
             "first less that of the one named second."]  # fmt: skip
    parts.append("Upright mark: mean; bar and brackets: 95 % interval over blocks, from 3 blocks on.")
    if any(one.margin is not None for one in points):
        parts.append("Shaded: the margin, within which a gap would not matter.")
    return " ".join([*parts, population])
