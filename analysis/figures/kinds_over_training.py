"""Draws what kind of point the trials of each arm are at over training: bars of shares, a panel for each arm."""

from __future__ import annotations

import math
from collections.abc import Sequence

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.patches import Patch
from matplotlib.ticker import PercentFormatter

from analysis.digits import share
from analysis.figures.captioned import Captioned
from analysis.figures.saddle_style import KINDS, MOST_PANELS, not_drawn, panel_title
from analysis.figures.style import n_words, new_figure, panels_across, style
from analysis.saddle_course import Course
from analysis.saddle_indicators import NEAR

MOST_LABELS = 8


def draw_kinds(courses: Sequence[Course], several: bool, population: str) -> Captioned:
    """Draw the bars.

    Args:
        courses: of all arms.
        several: whether there are several players.
        population: which seeds, machines and data they speak of.
    """
    titles = [
        panel_title(one.arm, one.cell, f"player {one.player}" if several else "", f"n = {one.trials}")
        for one in courses
    ]
    shown = courses[:MOST_PANELS]
    across = panels_across(len(shown))
    down = math.ceil(len(shown) / across)
    with style(), mpl.rc_context({"hatch.linewidth": 0.6}):
        figure = new_figure(0.9 + 2.3 * down)
        axes = figure.subplots(down, across, sharey=True, squeeze=False)
        for at, axis in enumerate(axes.flat):
            if at >= len(shown):
                axis.set_visible(False)
                continue
            _draw(axis, shown[at])
            axis.set_title(titles[at], fontsize="medium" if len(titles[at]) < 30 else "small")
            axis.set_xlabel("batches trained" if at + across >= len(shown) else "")
        figure.supylabel("share of trials", fontsize="medium")
        patches = [Patch(facecolor=colour, hatch=hatch, edgecolor="0.25", label=kind) for kind, (colour, hatch) in
                   KINDS.items()]  # fmt: skip
        figure.legend(handles=patches, loc="outside lower center", ncols=len(patches), frameon=False)
    counts = [stage.trials for one in courses for stage in one.stages]
    parts = [
        f"Each bar is one snapshot of {n_words(counts, 'trial')}. Near: the quadratic model's own critical point would "
        f"change the loss by at most {share(NEAR)}; near a saddle: an eigenvalue below minus the floor is certain "
        "there as well. The bars stand side by side, however many batches lie between."
    ]
    caption = " ".join([*parts, *not_drawn(titles), population])
    return Captioned(figure, "Kinds of point over training", caption)


def _draw(axis: Axes, one: Course) -> None:
    for at, stage in enumerate(one.stages):
        base, total = 0.0, sum(stage.kinds.values())
        for kind, (colour, hatch) in KINDS.items():
            if part := stage.kinds[kind] / total if total else 0.0:
                axis.bar(at, part, 0.8, base, color=colour, hatch=hatch, edgecolor="0.25", lw=0.6)
                base += part
    every = math.ceil(len(one.stages) / MOST_LABELS)
    places = range(0, len(one.stages), every)
    axis.set_xticks(places, [f"{one.stages[at].batches:,}" for at in places])
    axis.set_xlim(-0.6, len(one.stages) - 0.4)
    axis.set_ylim(0, 1)
    axis.yaxis.set_major_formatter(PercentFormatter(1))
    axis.grid(axis="x", visible=False)
