"""Draws how matched losses part after the first bit that differs, on logarithmic scales."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.ticker import FuncFormatter

from analysis.digits import plural
from analysis.figures.captioned import Captioned
from analysis.figures.style import GREY, legend_below, looks, new_figure, style
from analysis.growth_curves import Growth

ULP = float(np.finfo(np.float32).eps) / 2
MOST_SHADED = 4
ZERO = ", down to the lower edge where the smallest is 0"


def draw_divergence_growth(curves: Sequence[Growth], population: str) -> Captioned:
    """Draw a line for each contrast whose losses part.

    Args:
        curves: of all contrasts.
        population: which seeds, machines and data they speak of.

    Returns:
        Captioned: contrasts that never part are named in the caption.
    """
    parted = [curve for curve in curves if curve.pairs]
    look = looks([curve.label for curve in curves])
    with style():
        figure = new_figure(4.2 + 0.22 * max(len(parted) - 4, 0))
        axis = figure.subplots()
        axis.set(xscale="log", yscale="log")
        for curve in parted:
            colour, line, marker = look[curve.label]
            seen = curve.middle > 0
            kind = f"{curve.control} control, " if curve.control else ""
            name = f"{curve.label} ({kind}n = {plural(curve.pairs, 'pair')})"
            axis.plot(curve.batches[seen], curve.middle[seen], color=colour, ls="--" if curve.control else line,
                      marker=marker, ms=5, lw=1.8, label=name)  # fmt: skip
        if parted:
            axis.axhline(ULP, color=GREY, lw=1, ls=":")
            axis.annotate("half an ulp of float32", (1, ULP), (3, 3), xycoords=("axes fraction", "data"),
                          textcoords="offset points", ha="right", color=GREY, fontsize="small",
                          annotation_clip=False)  # fmt: skip
            legend_below(figure, axis)
        if 0 < len(parted) <= MOST_SHADED:
            for curve in parted:
                bands = [(curve.batches, curve.low), (curve.batches, curve.high)]
                axis.update_datalim(np.concatenate([np.c_[x, y][y > 0] for x, y in bands]))
            axis.autoscale_view()
            bottom = axis.get_ylim()[0]
            for curve in parted:
                low = np.maximum(curve.low, bottom)  # 0 is infinitely far down
                colour = look[curve.label][0]
                axis.fill_between(curve.batches, low, curve.high, where=curve.high > 0, color=colour, alpha=0.12, lw=0)
            axis.set_ylim(bottom=bottom)
        axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axis.set_xlabel("batches since the first differing loss, which is 1 (log scale)")
        axis.set_ylabel("relative difference (log scale)")
    return Captioned(figure, "How far the losses part", _caption(curves, parted, population))


def _caption(curves: Sequence[Growth], parted: Sequence[Growth], population: str) -> str:
    equal = [curve.label for curve in curves if not curve.pairs and curve.equal]
    parts = []
    if parted:
        parts.append("Line: median over pairs of trials, the median over each pair's batches in a bin first.")
        if len(parted) <= MOST_SHADED:
            parts.append(
                f"Band: smallest to largest pair{ZERO if any((one.low == 0).any() for one in parted) else ''}."
            )
        parts.append(
            "Rounding starts near one ulp and grows; a fault or another algorithm starts higher. Batches where most "
            "pairs are equal again are left out."
        )
    if equal:
        parts.append(f"Equal in every batch, bit for bit: {'; '.join(equal)}.")
    return " ".join([*parts, population]) if parts else "No two matched trials have been recorded yet."
