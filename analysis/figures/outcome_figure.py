"""Draws every trial's outcome by arm and machine, as the paper's figure does, with the mean and its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence

import seaborn as sns
from matplotlib.ticker import MaxNLocator

from analysis.cells import cell_words
from analysis.digits import plural
from analysis.figures.captioned import Captioned
from analysis.figures.style import looks, n_words, new_figure, panels_across, spread, style
from analysis.outcome_points import OutcomeGroup


def draw_outcomes(groups: Sequence[OutcomeGroup], outcome: str, population: str) -> Captioned:
    """Draw the groups.

    Args:
        groups: outcomes by arm, machine and cell.
        outcome: the outcome in words, the axis's label.
        population: which seeds, machines and data an interval speaks of.

    Returns:
        Captioned: a row for each arm (and machine, if there are several), a panel for each cell of the factors.
    """
    machines = list(dict.fromkeys(group.machine for group in groups))
    places = list(dict.fromkeys(_place(group) for group in groups))
    cells = list(dict.fromkeys(group.cell for group in groups))
    across = panels_across(len(cells))
    down = max(math.ceil(len(cells) / across), 1)
    look = looks(machines)
    with style():
        figure = new_figure(0.8 + down * (0.5 + 0.36 * max(len(places), 2)))
        axes = figure.subplots(down, across, sharex=False, sharey=True, squeeze=False)
        for at, axis in enumerate(axes.flat):
            if at >= len(cells):
                axis.set_visible(False)
                continue
            for group in (group for group in groups if group.cell == cells[at]):
                place = places.index(_place(group))
                colour = look[group.machine][0]
                sns.scatterplot(
                    x=list(group.values),
                    y=place + spread(len(group.values), 0.3),
                    color=colour,
                    alpha=0.6,
                    s=34,
                    ax=axis,
                )
                if group.interval.low is not None and group.interval.high is not None:
                    axis.plot([group.interval.low, group.interval.high], [place, place], color="black", lw=2, zorder=4)
                axis.plot([group.mean], [place], "|", color="black", ms=13, mew=2.5, zorder=5)
            if cells[at]:
                axis.set_title(cell_words(cells[at]), fontsize="medium")
            axis.set_yticks(range(len(places)), [_row(place, groups, len(machines) > 1) for place in places])
            axis.set_ylim(len(places) - 0.5, -0.5)
            axis.set(xlabel="", ylabel="")
            axis.xaxis.set_major_locator(MaxNLocator(4 if across > 1 else 8))
        figure.supxlabel(outcome, fontsize="medium")
    return Captioned(figure, "Outcome of every trial, by arm and machine", _caption(groups, machines, population))


def _place(group: OutcomeGroup) -> tuple[str, str]:
    return group.arm, group.machine


def _row(place: tuple[str, str], groups: Sequence[OutcomeGroup], several: bool) -> str:
    counts = [len(group.values) for group in groups if _place(group) == place]
    low, high = min(counts), max(counts)
    where = f"\n{place[1] or 'machine not recorded'}" if several else ""
    return f"{place[0]} (n = {low if low == high else f'{low} to {high}'}){where}"


def _caption(groups: Sequence[OutcomeGroup], machines: Sequence[str], population: str) -> str:
    if not groups:
        return "No trial has an outcome yet."
    where = ""
    if len(machines) == 1:
        where = f" All on one machine: {machines[0]}." if machines[0] else " The machine was not recorded."
    missing = sum(group.planned for group in groups) - sum(len(group.values) for group in groups)
    lost = f" {plural(missing, 'trial')} without an outcome left out." if missing and len(machines) <= 1 else ""
    return (
        f"A dot is one trial ({n_words([len(group.values) for group in groups])} each); upright mark: mean; bar: 95 % "
        f"interval of the mean over blocks, from 3 blocks on.{where}{lost} Blocks are paired, so judge a difference by "
        f"the next figure, not by whether these bars overlap. {population}"
    )
