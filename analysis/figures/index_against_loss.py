"""Draws the share of negative eigenvalues against the loss, the plane of Dauphin et al. 2014; a line for each trial."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter

from analysis.figures.captioned import Captioned
from analysis.figures.saddle_style import MOST_PANELS, Colour, name_arms, not_drawn
from analysis.figures.style import LOG_ABOVE, Look, legend_below, looks, n_words, new_figure, panels_across, style
from analysis.saddle_points import Trail

NO_SHARES = "No share of negative eigenvalues was recorded (`density: 0`)."


def draw_index_against_loss(
    found: Sequence[Trail],
    brackets: tuple[Sequence[Trail], Sequence[Trail]],
    arms: Sequence[str],
    floor: str,
    population: str,
) -> Captioned:
    """Draw the trails.

    Args:
        found: of ``negative_share``.
        brackets: of ``negative_share_low`` and ``negative_share_high``.
        arms: in the grid's order, for the colours.
        floor: what counts as negative, in words.
        population: which seeds, machines and data they speak of.
    """
    panels = list(dict.fromkeys(one.panel for one in found))
    shown = panels[:MOST_PANELS]
    across = panels_across(len(shown))
    look = looks(list(arms))
    losses = [loss for one in found for loss in one.losses if loss is not None]
    log = bool(losses) and min(losses) > 0 and max(losses) > LOG_ABOVE * min(losses)
    with style():
        figure = new_figure(4.3 if len(shown) <= 1 else 0.9 + 2.6 * math.ceil(len(shown) / across))
        axes = figure.subplots(math.ceil(len(shown) / across) or 1, across, sharey=True, squeeze=False)
        for at, axis in enumerate(axes.flat):
            if at >= len(shown):
                axis.set_visible(False)
                continue
            for one in (one for one in found if one.panel == shown[at]):
                _draw(axis, one, look[one.arm])
            low, high = axis.get_ylim()
            for lower, upper in zip(*brackets, strict=True):
                if lower.panel == shown[at]:
                    _bracket(axis, lower, upper, look[lower.arm][0])
            axis.set_ylim(low, high)
            axis.set_title(shown[at], fontsize="medium")
            axis.set_ylim(bottom=min(0.0, axis.get_ylim()[0]))
            if log:
                axis.set_xscale("log")
                axis.xaxis.set_minor_formatter(NullFormatter())
            axis.set_xlabel(f"loss on the probe set{' (log scale)' if log else ''}")
        figure.supylabel("share of eigenvalues below minus the floor", fontsize="medium")
        name_arms(axes[0, 0], found, arms, look, 5.5, 1)
        legend_below(figure, axes[0, 0])
    return Captioned(
        figure, "Share of negative eigenvalues against the loss", _caption(found, brackets, panels, floor, population)
    )


def _draw(axis: Axes, one: Trail, look: Look) -> None:
    colour, line, marker = look
    known = [(loss, value, at) for loss, value, at in zip(one.losses, one.values, one.batches, strict=True)
             if loss is not None]  # fmt: skip
    if not known:
        return
    loss, share = np.array([x for x, _, _ in known]), np.array([value.value for _, value, _ in known])
    errors = np.array([value.bound or 0.0 for _, value, _ in known])
    axis.plot(loss, share, color=colour, ls=line, lw=0.8, alpha=0.45, zorder=2)
    axis.errorbar(loss, share, yerr=errors, fmt="none", ecolor=colour, elinewidth=1, alpha=0.55, zorder=2)
    start = np.array([at == 0 for _, _, at in known])
    axis.plot(loss[~start], share[~start], marker, color=colour, ms=5.5, alpha=0.8, lw=0, zorder=3)
    axis.plot(loss[start], share[start], marker, mfc="white", mec=colour, ms=5.5, lw=0, zorder=3)


def _bracket(axis: Axes, lower: Trail, upper: Trail, colour: Colour) -> None:
    """Draw what the quadrature leaves open; the axis keeps its ends."""
    for loss, low, high in zip(lower.losses, lower.values, upper.values, strict=True):
        if loss is not None:
            axis.plot([loss, loss], [low.value, high.value], color=colour, lw=0.7, ls=":", alpha=0.7, zorder=1)


def _open(brackets: tuple[Sequence[Trail], Sequence[Trail]]) -> str:
    low, high = ([value.value for one in trails for value in one.values] for trails in brackets)
    if not low or not high:
        return ""
    return (
        f" Dotted: what the quadrature leaves open ({min(low):.2g} to {max(high):.3g}), cut off at the frame: a node "
        "stands for all eigenvalues around it."
    )


def _caption(
    found: Sequence[Trail],
    brackets: tuple[Sequence[Trail], Sequence[Trail]],
    panels: Sequence[str],
    floor: str,
    population: str,
) -> str:
    if not found:
        return NO_SHARES
    counts = [len(one.batches) for one in found]
    parts = [
        f"A line is one trial, its dots are snapshots ({n_words(counts, 'snapshot')} a trial), from the initial "
        "weights (hollow) on; training lowers the loss, so it mostly runs to the left. Bars: standard error of the "
        f"share by its random start.{_open(brackets)} Counted are eigenvalues {floor}; where floors differ, so does "
        "what is counted."
    ]
    return " ".join([*parts, *not_drawn(panels), population])
