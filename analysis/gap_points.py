"""Each block's paired difference, in the unit that its contrast is judged in, with interval and margin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ablate.design.spec import Margin
from analysis.contrast import ContrastReport
from analysis.controls import Control

Unit = Literal["percent", "absolute"]


@dataclass(frozen=True)
class GapPoints:
    """Paired differences of one contrast. The unit is the block: the interval speaks of new seeds.

    Attributes:
        label: the contrast.
        control: kind of control contrast; None for one of the study's own.
        values: other minus reference by block, divided by the mean of the reference where the unit is percent (so
            their mean is the gap), as a fraction of it.
        gap: their mean.
        low: lower end of the gap's 95 % interval; None without one.
        high: upper end; None without one.
        margin: half-width of the equivalence margin in the same unit; None without one.
    """

    label: str
    control: Control | None
    values: tuple[float, ...]
    gap: float
    low: float | None
    high: float | None
    margin: float | None


def gap_points(contrasts: Sequence[ContrastReport], margin: Margin | None) -> tuple[Unit, tuple[GapPoints, ...]]:
    """Return the unit that all contrasts share, and the contrasts with at least one block.

    Args:
        contrasts: of the study and its controls.
        margin: equivalence margin.

    Returns:
        tuple: ``percent`` of the reference's mean if every contrast has a relative gap, else the outcome's own unit.
    """
    shown = [contrast for contrast in contrasts if contrast.pairs]
    unit: Unit = "percent" if all(contrast.effect.relative is not None for contrast in shown) else "absolute"
    return unit, tuple(_points(contrast, margin, unit) for contrast in shown)


def _points(contrast: ContrastReport, margin: Margin | None, unit: Unit) -> GapPoints:
    reference = np.array([pair.reference for pair in contrast.pairs])
    differences = np.array([pair.other for pair in contrast.pairs]) - reference
    mean = float(np.mean(reference))
    scale = mean if unit == "percent" else 1.0
    bounds = contrast.effect.relative_interval if unit == "percent" else contrast.effect.gap_interval
    values = differences / scale
    return GapPoints(
        label=contrast.label,
        control=contrast.control,
        values=tuple(map(float, values)),
        gap=float(np.mean(values)),
        low=bounds.low,
        high=bounds.high,
        margin=None if margin is None else margin.of(mean) / scale,
    )
