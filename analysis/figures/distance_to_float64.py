"""Draws each gradient's and update's distance from float64 on a logarithmic axis, beside what rounding explains."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from analysis.digits import plural
from analysis.error_points import ErrorPoint, most_telling
from analysis.figures.captioned import Captioned
from analysis.figures.style import GREY, legend_below, looks, new_figure, style

MOST_NAMES = 30
"""Rows that a page has room for."""

PANELS = {"gradient": "gradient", "update": "update, given the gradient"}


def draw_distances(points: Sequence[ErrorPoint], arms: Sequence[str], trials: int, population: str) -> Captioned:
    """Draw the points.

    Args:
        points: distances by arm, quantity and name.
        arms: arms in the order of their colours.
        trials: trials that the points come from.
        population: which seeds, machines and data they speak of.

    Returns:
        Captioned: a row for each parameter, the loss on top; a panel for gradients and one for updates.
    """
    names = most_telling(points, MOST_NAMES)
    losses = list(dict.fromkeys(point.name for point in points if point.quantity == "loss"))
    look = looks(list(arms))
    places = {("loss", name): at for at, name in enumerate(losses)}
    places |= {(quantity, name): at for quantity in PANELS for at, name in enumerate(names, len(losses))}
    rows = len(losses) + len(names)
    with style():
        figure = new_figure(1.6 + 0.24 * max(rows, 3))
        axes = figure.subplots(1, len(PANELS), sharex=True, sharey=True)
        for axis, (quantity, head) in zip(axes, PANELS.items(), strict=True):
            axis.set_xscale("log")
            for point in points:
                if point.quantity in (quantity, "loss" if axis is axes[0] else "") and (
                    (place := places.get((point.quantity, point.name))) is not None
                ):
                    _draw(axis, point, place, arms, look[point.arm])
            axis.set_title(f"{'loss and ' if axis is axes[0] and losses else ''}{head}", fontsize="medium")
            axis.set_yticks(range(rows), [*_loss_names(losses), *names], fontsize="small")
            axis.set_ylim(max(rows, 1) - 0.5, -0.5)
            axis.set_xlabel("distance / norm (log scale)")
        if points:
            _legend(axes[0], arms, look)
            legend_below(figure, axes[0])
    return Captioned(figure, "Distance from float64", _caption(points, names, losses, trials, population))


def _draw(axis: Axes, point: ErrorPoint, place: int, arms: Sequence[str], look: tuple[object, str, str]) -> None:
    """Draw one value's errors as dots and its bounds as upright bars, least and most joined; faults are ringed."""
    step = 0.7 / max(len(arms), 1)
    y = place + (arms.index(point.arm) - (len(arms) - 1) / 2) * step
    axis.plot(point.errors, [y] * len(point.errors), look[2], color=look[0], ms=4.5, alpha=0.8, lw=0)
    if point.faults and point.errors:
        axis.plot([max(point.errors)], [y], "o", mfc="none", mec="#a3001b", mew=1.6, ms=10, lw=0)
    if point.bounds is not None:
        for bound in sorted(set(point.bounds)):
            axis.plot([bound, bound], [y - step / 2, y + step / 2], color=look[0], lw=2)
        axis.plot(point.bounds, [y, y], color=look[0], lw=0.8, alpha=0.6)


def _legend(axis: Axes, arms: Sequence[str], look: dict[str, tuple[object, str, str]]) -> None:
    """Name every mark once, by empty lines."""
    for arm in arms:
        axis.plot([], [], look[arm][2], color=look[arm][0], ms=5, lw=0, label=arm)
    axis.plot([], [], "|", color=GREY, ms=11, mew=2, lw=0, label="what rounding explains")
    axis.plot([], [], "o", mfc="none", mec="#a3001b", mew=1.6, ms=9, lw=0, label="beyond it: a fault")


def _loss_names(losses: Sequence[str]) -> list[str]:
    return ["loss"] if len(losses) == 1 else [f"loss of {name}" for name in losses]


def _caption(
    points: Sequence[ErrorPoint], names: Sequence[str], losses: Sequence[str], trials: int, population: str
) -> str:
    if not points:
        return "No step was held against a float64 reference."
    parts = [
        f"A dot is one audited batch of one trial (n = {plural(trials, 'trial')}): the Euclidean distance of what the "
        "arm computed from the same step in float64, divided by the norm of the latter. Bars: what rounding explains, "
        "least and most over the batches. One block's trials keep every value, the others each batch's worst and what "
        "is beyond rounding."
    ]
    left = len({point.name for point in points if point.quantity != "loss"}) - len(names)
    if left:
        parts.append(f"Shown are the {len(names)} parameters nearest to their bounds; {left} more are farther off.")
    if exact := sum(point.exact for point in points):
        parts.append(f"{plural(exact, 'distance')} of exactly 0 cannot be shown.")
    return " ".join([*parts, population])
