"""Draws the losses of every arm: median over blocks and the band around it, a panel for each cell of the factors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from analysis.cells import cell_words
from analysis.digits import plural
from analysis.figures.captioned import Captioned
from analysis.figures.style import (
    GREY,
    LINES,
    LOG_ABOVE,
    legend_below,
    looks,
    n_words,
    new_figure,
    panels_across,
    style,
)
from analysis.loss_bands import Band

MOST_OVERLAID = 4
"""With more arms than this, bands hide each other: every arm then has a panel of its own."""
THIN, WIDE = 1.0, 3.5
"""Points: without bands, lines get thinner from arm to arm, so that one that lies on others leaves rims of them."""


def draw_loss_curves(
    bands: Sequence[Band], beside: Mapping[str, str], window: tuple[int, int] | None, population: str
) -> Captioned:
    """Draw the bands.

    Args:
        bands: of all arms and cells.
        beside: arm -> the arm that it is compared with, whose median is dotted into its panel.
        window: first and last batch of the outcome's window, which is shaded; None if the outcome is another.
        population: which seeds, machines and data the band speaks of.

    Returns:
        Captioned: panels by cell, or by arm when there are no factors and many arms.
    """
    arms = list(dict.fromkeys(band.arm for band in bands))
    cells = list(dict.fromkeys(band.cell for band in bands))
    by_arm = len(arms) > MOST_OVERLAID and len(cells) == 1
    shaded = by_arm or len(arms) <= MOST_OVERLAID
    look = looks(arms)
    panels = [[band] for band in bands] if by_arm else [[b for b in bands if b.cell == cell] for cell in cells]
    across = panels_across(len(panels))
    down = max(math.ceil(len(panels) / across), 1)
    with style():
        figure = new_figure(4.0 if len(panels) <= 1 else 0.9 + 2.3 * down)
        axes = figure.subplots(down, across, sharex=True, sharey=by_arm, squeeze=False)
        for at, axis in enumerate(axes.flat):
            if at >= len(panels):
                axis.set_visible(False)
                continue
            other = [band for band in bands if by_arm and band.arm == beside.get(panels[at][0].arm)]
            for band in other:
                axis.plot(band.batch, band.middle, color=GREY, lw=1.2, ls=":", zorder=3)
            for band in panels[at]:
                line = look[band.arm][1] if by_arm else LINES[arms.index(band.arm) % len(LINES)]
                place = arms.index(band.arm) / max(len(arms) - 1, 1)
                width = 1.6 if by_arm or shaded else WIDE + (THIN - WIDE) * place
                _draw(axis, band, look[band.arm][0], line, width, shaded)
            if window:
                axis.axvspan(*window, color="0.5", alpha=0.12, lw=0)
            title = f"{panels[at][0].arm} (n = {panels[at][0].blocks})" if by_arm else cell_words(panels[at][0].cell)
            if title:
                axis.set_title(title, fontsize="medium" if len(title) < 28 else "small")
            last = at + across >= len(panels)
            axis.tick_params(labelbottom=last)
            axis.set_xlabel("batch" if last else "")
        log = _wants_log(bands)
        for axis in axes.flat if log else ():
            axis.set_yscale("log")
        figure.supylabel(f"loss{' (log scale)' if log else ''}", fontsize="medium")
        if not by_arm and panels:
            legend_below(figure, axes[0, 0])
    return Captioned(figure, "Loss of every batch", _caption(bands, window, population, by_arm, shaded))


def _draw(axis: Axes, band: Band, colour: tuple[float, float, float], line: str, width: float, shaded: bool) -> None:
    if shaded:
        axis.fill_between(band.batch, band.low, band.high, color=colour, alpha=0.18, lw=0)
    axis.plot(band.batch, band.middle, color=colour, ls=line, lw=width, label=f"{band.arm} (n = {band.blocks})")


def _wants_log(bands: Sequence[Band]) -> bool:
    if not bands or min(band.low.min() for band in bands) <= 0:
        return False
    return max(band.middle.max() for band in bands) > LOG_ABOVE * min(band.middle.min() for band in bands)


def _caption(bands: Sequence[Band], window: tuple[int, int] | None, population: str, by_arm: bool, shaded: bool) -> str:
    if not bands:
        return "No loss has been recorded yet."
    parts = [f"Line: median over {n_words([band.blocks for band in bands])}."]
    if shaded:
        wholes = {band.whole for band in bands}
        kinds = [words for whole, words in ((True, "smallest to largest block"), (False, "middle 90 % of the blocks"))]
        known = [words for (whole, words) in zip((True, False), kinds, strict=True) if whole in wholes]
        parts.append(f"Band: {' (few blocks) or '.join(known)}.")
    else:
        parts.append(
            "Bands are left out, since those of so many arms would hide each other; lines get thinner from arm to arm."
        )
    if by_arm:
        parts.append("Dotted: the median of the arm that it is compared with.")
    if window:
        parts.append("Grey: the batches that the outcome averages.")
    if short := sum(band.short for band in bands):
        parts.append(f"{plural(short, 'trial')} ended early; from there on the line is over the others.")
    return " ".join([*parts, population])
