"""Draws the eigenvalues of the players' game Jacobian in the complex plane, a panel for each arm."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes

from analysis.cells import cell_words
from analysis.density_ridges import evenly
from analysis.digits import plural
from analysis.figures.captioned import Captioned
from analysis.figures.saddle_style import MOST_PANELS, not_drawn, panel_title, two_signs
from analysis.figures.style import GREY, MARKERS, new_figure, panels_across, style
from analysis.probed import GAME, Probed
from analysis.saddle_course import groups

ONE_PLAYER = "One player: there is no game between several."
MOST_STAGES = len(MARKERS)


def draw_game_plane(
    probed: Sequence[Probed], arms: Sequence[str], factors: Mapping[str, Sequence[object]], population: str
) -> Captioned:
    """Draw the eigenvalues.

    Args:
        probed: snapshots with a game Jacobian.
        arms: in the grid's order.
        factors: the grid's.
        population: which seeds, machines and data they speak of.
    """
    games = [one for one in probed if one.player == GAME]
    keys = groups(games, arms, factors)
    titles = [panel_title(arm, cell_words(cell)) for arm, cell in keys]
    every = sorted({one.batches for one in games})
    stages = [every[i] for i in evenly(len(every), MOST_STAGES)]
    colours = mpl.colormaps["viridis"](np.linspace(0, 0.9, len(stages)))
    shown = keys[:MOST_PANELS]
    across = panels_across(len(shown))
    down = math.ceil(len(shown) / across)
    with style():
        figure = new_figure(0.9 + 3.0 * down)
        axes = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False)
        for place, axis in enumerate(axes.flat):
            if place >= len(shown):
                axis.set_visible(False)
                continue
            own = [one for one in games if (one.arm, one.cell) == shown[place]]
            for stage, colour, marker in zip(stages, colours, MARKERS, strict=False):
                _draw(axis, [one for one in own if one.batches == stage], colour, marker)
            trials = len({one.trial_id for one in own})
            axis.set_title(f"{titles[place]} (n = {trials})", fontsize="medium")
            axis.axvline(0, color=GREY, lw=1)
            axis.set_xlabel("real part" if place + across >= len(shown) else "")
        _scale(axes.flat, games)
        figure.supylabel("imaginary part", fontsize="medium")
        handles = [mpl.lines.Line2D([], [], color=colour, marker=marker, lw=0, ms=6, label=f"after {stage:,} batches")
                   for stage, colour, marker in zip(stages, colours, MARKERS, strict=False)]  # fmt: skip
        figure.legend(handles=handles, loc="outside lower center", ncols=min(4, len(handles)), frameon=False)
    parts = [
        "Eigenvalues of the Jacobian of all players' gradients, of every trial. To the left of 0 the players' gradient "
        "descent moves away from the point; off the real axis they turn around each other."
    ]
    if left := len(every) - len(stages):
        parts.append(f"{plural(left, 'snapshot')} in between not drawn.")
    return Captioned(figure, "Eigenvalues of the game", " ".join([*parts, *not_drawn(titles), population]))


def _draw(axis: Axes, here: Sequence[Probed], colour: np.ndarray, marker: str) -> None:
    real = [value.value for one in here for value in one.values.get("game_real", ())]
    imaginary = [value.value for one in here for value in one.values.get("game_imag", ())]
    if len(real) == len(imaginary):
        axis.plot(real, imaginary, marker, color=colour, ms=6, alpha=0.75, mec="white", mew=0.4, lw=0)


def _scale(axes: Iterable[Axes], games: Sequence[Probed]) -> None:
    """Give both axes a scale that shows small eigenvalues beside large ones."""
    every = list(axes)
    names: tuple[tuple[str, Literal["x", "y"]], ...] = (("game_real", "x"), ("game_imag", "y"))
    for name, which in names:
        values = np.array([value.value for one in games for value in one.values.get(name, ())])
        sizes = np.abs(values[values != 0])
        if len(sizes) and sizes.max() > 100 * np.median(sizes):
            for axis in every:
                two_signs(axis, which, float(np.median(sizes)), values.min(), values.max(), 7)
