"""Dose and response: how the outcome changes with the size of the noise in the gradients.

For a study whose arms differ in ``gradient_noise`` alone, among them one without. The dose is log10(1 + ulps): 0
without noise, then one more for each tenfold. In every block the outcomes less that of the arm without noise are
fitted by a line through the origin (least squares); its slope is that block's response. The unit of replication is the
block, so the mean slope has a 95 % BCa interval over blocks. A trend is claimed by the sign-flip test of the slopes, as
a difference is: with few blocks the interval is too narrow for that (``bca``).

A line is the simplest response, and the one that a trend is looked for with: a response that rises and falls again can
have a slope of 0. Hence the means at every dose are given beside it, and the contrasts test each dose by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ablate.design.attainable import LEVEL
from ablate.design.spec import Arm, Contrast, GridSpec
from analysis.bca import Interval, mean_interval
from analysis.digits import interval, p_words, plural, signed
from analysis.outcomes import Outcome
from analysis.pairing import Sides, pair
from analysis.sign_flip import SignFlip, sign_flip
from analysis.trials import Trial

Array = np.ndarray[Any, np.dtype[np.float64]]

FEWEST_DOSES = 2
"""Beside 0: with one there is no line to look for, only the contrast."""


@dataclass(frozen=True)
class Dose:
    """One arm with noise.

    Attributes:
        arm: its name.
        ulps: size of its noise.
        difference: mean outcome less that of the arm without noise, over the blocks of the fit; None without blocks.
    """

    arm: str
    ulps: float
    difference: float | None


@dataclass(frozen=True)
class DoseResponse:
    """The response of the outcome to noise.

    Attributes:
        reference: the arm without noise.
        doses: the others, by rising dose.
        n: blocks with an outcome at every dose.
        slope: mean over blocks, in the outcome's unit per tenfold of 1 + ulps; None without blocks.
        interval: its 95 % interval.
        test: whether it is 0; one test, beside the family of contrasts.
    """

    reference: str
    doses: tuple[Dose, ...]
    n: int
    slope: float | None
    interval: Interval
    test: SignFlip


def dose_response(
    grid: GridSpec, trials: Sequence[Trial], outcomes: Mapping[str, Outcome], seed: int = 0
) -> DoseResponse | None:
    """Fit the response.

    Args:
        grid: the study.
        trials: all its planned trials.
        outcomes: by trial id.
        seed: seed of the resampling.

    Returns:
        DoseResponse | None: None for a study that is not about the size of noise.
    """
    arms = {name: arm for name, arm in grid.arms.items() if not arm.control}
    ulps = {name: arm.numerics.gradient_noise for name, arm in arms.items()}
    reference = next((name for name, size in ulps.items() if size == 0), None)
    noisy = sorted((name for name, size in ulps.items() if size > 0), key=ulps.__getitem__)
    if reference is None or len(noisy) < FEWEST_DOSES or not _differ_in_noise_only(list(arms.values())):
        return None
    found = []
    for name in noisy:
        paired = pair(trials, outcomes, Sides.of(Contrast(arms=(reference, name)), grid))
        found.append({one.block: one.other - one.reference for one in paired.pairs})
    blocks = sorted(set.intersection(*(set(one) for one in found)))
    differences = np.array([[one[block] for block in blocks] for one in found], dtype=np.float64)
    slopes = slope_through_origin(np.log10(1 + np.array([ulps[name] for name in noisy])), differences)
    means = [float(np.mean(row)) if blocks else None for row in differences]
    return DoseResponse(
        reference=reference,
        doses=tuple(Dose(name, ulps[name], mean) for name, mean in zip(noisy, means, strict=True)),
        n=len(blocks),
        slope=float(np.mean(slopes)) if blocks else None,
        interval=mean_interval(slopes, seed),
        test=sign_flip(slopes, seed),
    )


def slope_through_origin(doses: Array, differences: Array) -> Array:
    """Return the least-squares slope of each block's line through the origin, sum(x y) / sum(x x).

    Args:
        doses: x, shape (doses,), not all 0.
        differences: y, shape (doses, blocks).

    Returns:
        Array: shape (blocks,).
    """
    slopes: Array = doses @ differences / (doses @ doses)
    return slopes


def dose_words(found: DoseResponse) -> str:
    """Put the response in one sentence, and the means it is fitted to in another."""
    sizes = ", ".join(f"{dose.ulps:,g}" for dose in found.doses)
    head = f"Dose-response (noise of 0, {sizes} ulps in the gradients, {plural(found.n, 'block')}):"
    if found.slope is None:
        return f"{head} no block has an outcome at every dose."
    change = f"the outcome changes by {signed(found.slope)}"
    if found.interval.low is None:
        return f"{head} {change} per tenfold of 1 + ulps; {found.interval.method}."
    shown = "no trend is shown"
    if found.test.p is not None and found.test.p < LEVEL:
        shown = f"it {'rises' if found.slope > 0 else 'falls'} with the noise"
    means = ", ".join(f"{signed(dose.difference)} ({dose.arm})" for dose in found.doses)
    return (
        f"{head} {change} {interval(found.interval)} per tenfold of 1 + ulps ({p_words(found.test.p)}): {shown}. "
        f"Means less that of {found.reference}: {means}."
    )


def _differ_in_noise_only(arms: Sequence[Arm]) -> bool:
    silent = [
        arm.model_copy(update={"numerics": arm.numerics.model_copy(update={"gradient_noise": 0.0})}) for arm in arms
    ]
    return all(arm == silent[0] for arm in silent)
