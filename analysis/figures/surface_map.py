"""Draws the loss around one snapshot along its extreme eigenvectors, with the way of each arm projected on it."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from analysis.digits import number, plural
from analysis.figures.captioned import Captioned
from analysis.figures.style import legend_below, looks, new_figure, style
from analysis.loss_surface import Surface, Trajectory

NO_SURFACE = "No loss surface was recorded (`probes: {curvature: {surface: true}}` maps one)."
MOST_ARMS = 4
LEVELS = 18
NEAREST = 0.06
"""Labels nearer to each other than this share of an axis would overlap."""

FARTHEST = 3.0
"""A trajectory may be drawn so many times beyond the surface before it is cut: else the surface would be a speck."""


def draw_surface(found: Surface, arms: Sequence[str], several: bool, left_out: int, population: str) -> Captioned:
    """Draw a surface.

    Args:
        found: the surface.
        arms: in the grid's order, for the colours.
        several: whether there are several players.
        left_out: further surfaces of the run, of other blocks.
        population: which seeds, machines and data they speak of.
    """
    look = looks(list(arms))
    shown = found.trajectories[:MOST_ARMS]
    with style():
        figure = new_figure(5.6)
        axis = figure.subplots()
        _contours(figure, axis, found)
        cut = _limits(axis, found, shown)
        for one in shown:
            colour, line, marker = look[one.arm]
            axis.plot(one.along_top, one.along_bottom, color="white", lw=3.2, alpha=0.85, zorder=4)
            axis.plot(one.along_top, one.along_bottom, color=colour, ls=line, marker=marker, mec="white", mew=0.8,
                      ms=7, lw=1.7, zorder=5, label=_name(one))  # fmt: skip
        _label(axis, shown)
        axis.plot([0], [0], "+", color="black", ms=13, mew=2, lw=0, zorder=6, label="the snapshot in the centre")
        axis.set_xlabel(f"along the largest eigenvalue's vector{_value(found.top)}")
        axis.set_ylabel(f"along the smallest eigenvalue's vector{_value(found.bottom)}")
        axis.grid(visible=False)
        legend_below(figure, axis)
    return Captioned(
        figure, "Loss around one snapshot", _caption(found, len(shown), cut, several, left_out, population)
    )


def _contours(figure: Figure, axis: Axes, found: Surface) -> None:
    """Fill by the loss; logarithmic levels if it spans more than a factor of 20."""
    losses = np.ma.masked_invalid(found.losses)
    low, high = float(losses.min()), float(losses.max())
    if low == high:
        high = low + (abs(low) or 1.0)
    log = low > 0 and high > 20 * low
    levels = np.geomspace(low, high, LEVELS) if log else np.linspace(low, high, LEVELS)
    norm = mpl.colors.LogNorm(low, high) if log else mpl.colors.Normalize(low, high)
    drawn = axis.contourf(found.along_top, found.along_bottom, losses, levels=levels, norm=norm, cmap="cividis")
    axis.contour(found.along_top, found.along_bottom, losses, levels=levels, colors="white", linewidths=0.4, alpha=0.6)
    ticks = np.geomspace(low, high, 6) if log else MaxNLocator(6)
    bar = figure.colorbar(drawn, ax=axis, pad=0.02, ticks=ticks, format=lambda value, _: f"{value:.3g}")
    bar.minorticks_off()
    bar.set_label(f"loss on the probe set{' (log scale)' if log else ''}")


def _limits(axis: Axes, found: Surface, shown: Sequence[Trajectory]) -> bool:
    """Show the surface and the drawn trajectories as far as ``FARTHEST``; return whether something is cut."""
    cut = False
    for setter, grid, places in (
        (axis.set_xlim, found.along_top, [one.along_top for one in shown]),
        (axis.set_ylim, found.along_bottom, [one.along_bottom for one in shown]),
    ):
        half = float(np.ptp(grid)) / 2 or 1.0
        middle = float(grid.min() + grid.max()) / 2
        everything = np.concatenate([grid, *places])
        low, high = float(everything.min()), float(everything.max())
        least, most = middle - FARTHEST * half, middle + FARTHEST * half
        cut |= low < least or high > most
        margin = 0.06 * (min(high, most) - max(low, least))
        setter(max(low, least) - margin, min(high, most) + margin)
    return cut


def _name(one: Trajectory) -> str:
    """Return a way's name, with its own loss where it begins and ends: the map's colour is another's."""
    first, last = one.losses[0], one.losses[-1]
    known = np.isfinite([first, last]).all()
    return f"{one.arm} (own loss {number(first, 3)} to {number(last, 3)})" if known else one.arm


def _label(axis: Axes, shown: Sequence[Trajectory]) -> None:
    """Write the batches beside the first and the last snapshot of each way, where no other label stands."""
    taken = [np.zeros(2)]  # the centre has its cross
    spans = np.array([np.ptp(axis.get_xlim()), np.ptp(axis.get_ylim())])
    for one in shown:
        for at in sorted({0, len(one.batches) - 1}):
            here = np.array([one.along_top[at], one.along_bottom[at]])
            if min(float(np.abs((here - there) / spans).max()) for there in taken) < NEAREST:
                continue
            taken.append(here)
            axis.annotate(f"{one.batches[at]:,.0f}", here, (6, 5), textcoords="offset points", fontsize="small",
                          zorder=7, bbox={"boxstyle": "round,pad=0.1", "fc": "white", "ec": "none", "alpha": 0.75},
                          annotation_clip=True)  # fmt: skip


def _value(value: float | None) -> str:
    return "" if value is None else f" ({number(value, 3)})"


def _caption(found: Surface, shown: int, cut: bool, several: bool, left_out: int, population: str) -> str:
    whose = f", player {found.player}" if several else ""
    parts = [
        f"The loss on the plane through arm {found.arm}'s weights of block {found.block} after {found.batches:,} "
        f"batches{whose}, along the eigenvectors of its largest and smallest eigenvalue; distances are those of "
        "parameters. The ways of the arms are projected on the plane: they run outside it, so their own loss is not "
        "the colour below them. Numbers: batches trained."
    ]
    if cut:
        parts.append(f"What lies more than {FARTHEST:g} times as far out as the surface's edge is cut off.")
    if more := len(found.trajectories) - shown:
        parts.append(f"{plural(more, 'further way')} not drawn.")
    if left_out:
        parts.append(f"{plural(left_out, 'more surface')} in the data set.")
    return " ".join([*parts, population])
