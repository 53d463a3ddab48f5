"""What a reader must know to read a saddle report right."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from analysis.bca import few_words
from analysis.digits import number, plural, share
from analysis.population import population
from analysis.probed import GAME, Probed, firsts
from analysis.saddle_contrast import Compared, IndicatorContrast, TimeNearSaddles
from analysis.saddle_course import Course

SEEN_WHOLE = 0.99
"""A share of the gradient above which it counts as seen: what is missing then moves no share that is drawn from it by
more than a hundredth, the digit that shares are told to."""

METHODS = {"dense": "exact, from the whole Hessian", "quadrature": "an estimate, by stochastic Lanczos quadrature"}


def floor_words(probed: Sequence[Probed]) -> str:
    """Return what counts as negative: ``below minus 0.1% of the largest eigenvalue in size, which is 0.2``."""
    floors, relative = [], []
    for one in probed:
        floor, top, bottom = (one.first(name) for name in ("floor", "lambda_max", "lambda_min"))
        if floor is not None:
            floors.append(floor.value)
            largest = max((abs(edge.value) for edge in (top, bottom) if edge), default=0.0)
            relative += [floor.value / largest] if largest else []
    if not floors:
        return "no floor was recorded, so shares of negative eigenvalues mean nothing here"
    low, high = number(min(floors), 2), number(max(floors), 2)
    absolute = low if low == high else f"{low} to {high}"
    if relative and np.ptp(relative) <= 0.01 * max(relative):
        return f"below minus {share(relative[0])} of the snapshot's largest eigenvalue in size, which is {absolute}"
    return f"below minus {absolute}"


def notes(
    probed: Sequence[Probed],
    compared: Sequence[Compared],
    time: Sequence[TimeNearSaddles],
    contrasts: Sequence[IndicatorContrast],
    courses: Sequence[Course],
    recorded: pa.Table,
) -> tuple[str, ...]:
    """Write the notes.

    Args:
        probed: all snapshots.
        compared: what was compared.
        time: the share of snapshots near saddles.
        contrasts: the other indicators.
        courses: each arm over training.
        recorded: the ``trials`` data set.

    Returns:
        tuple[str, ...]: sentences; the most general last.
    """
    found = [
        *_when(compared),
        *_undecided(courses),
        *_unconverged(probed),
        *_shares(probed),
        *_gradient(probed),
        *_escape(probed),
        *_devices(probed),
        *_family(time, contrasts),
        *few_words(one.n for one in (*time, *contrasts) if one.interval.low is not None),
    ]
    return (*found, f"The unit of replication is the block (seed). {population(recorded)}")


def _when(compared: Sequence[Compared]) -> list[str]:
    stages = {tuple(one.at) for one in compared}
    if not stages:
        return []
    listed = "; ".join(", ".join(map(str, at)) or "none" for at in sorted(stages))
    return [
        f"Compared are means over the snapshots after batch {listed}, those that at least half of the trials have, "
        "each counted once however far it is from the next: time near saddles is their share. The initial weights are "
        "left out, every arm begins there."
    ]


def _undecided(courses: Sequence[Course]) -> list[str]:
    return [
        f"Undecided: {one.kinds['undecided']} of {plural(one.snapshots, 'snapshot')} of arm {one.arm}"
        f"{f', {one.cell}' if one.cell else ''}; the last of them: {one.evidence}."
        for one in courses
        if one.kinds["undecided"]
    ]


def _unconverged(probed: Sequence[Probed]) -> list[str]:
    edges = [edge for name in ("lambda_max", "lambda_min") for edge in firsts(probed, name)]
    lacking = sum(edge.converged is False for edge in edges)
    if not lacking:
        return []
    return [
        f"*: {lacking} of {plural(len(edges), 'edge')} have not converged: the true edge may lie farther out than the "
        "value with its bound, which says only that some eigenvalue is that near. More steps settle it "
        "(`probes: {curvature: {steps: ...}}`)."
    ]


def _shares(probed: Sequence[Probed]) -> list[str]:
    methods = dict.fromkeys(value.method for value in firsts(probed, "negative_share"))
    if not methods:
        return ["Without a density (`density: 0`) the share of negative eigenvalues is not known."]
    words = " or ".join(f"{METHODS.get(method, method)}" for method in methods)
    said = [
        f"The share below minus the floor is {words}. The floor goes with each snapshot's own largest eigenvalue, so "
        "where that differs, shares count against different floors."
    ]
    brackets = [
        (low.value, high.value)
        for one in probed
        if (low := one.first("negative_share_low")) is not None
        and (high := one.first("negative_share_high")) is not None
        and low.value < high.value
    ]
    if brackets:
        least, most = min(low for low, _ in brackets), max(high for _, high in brackets)
        said.append(
            "A node of the quadrature stands for all eigenvalues around it, perhaps on both sides of the floor: that "
            f"leaves shares from {number(least, 2)} to {number(most, 3)} open, whatever their standard errors say. "
            "Certain are the eigenvalues that kinds rest on."
        )
    if len(methods) > 1:
        said.append("Exact and estimated shares stand side by side: the models are of different size.")
    return said


def _gradient(probed: Sequence[Probed]) -> list[str]:
    seen = [found.value for found in firsts(probed, "gradient_captured")]
    if not seen or min(seen) > SEEN_WHOLE:
        return []
    return [
        f"Of the gradient {100 * min(seen):.0f}% to {100 * max(seen):.0f}% was seen, the part of its squared norm in "
        "the Krylov space: its share in negative curvature is a lower bound, and a difference between arms may be one "
        "in how much was seen."
    ]


def _escape(probed: Sequence[Probed]) -> list[str]:
    methods = dict.fromkeys(found.method for found in firsts(probed, "escape_rate"))
    if not methods:
        return []
    return [
        "The escape rate is how fast the logarithm of the distance from the saddle grows along its steepest way out, "
        f"under the optimiser's own step ({'; '.join(methods)})."
    ]


def _devices(probed: Sequence[Probed]) -> list[str]:
    devices = sorted({one.conditions.device for one in probed if one.player != GAME})
    if len(devices) < 2:
        return []
    return [
        f"Looked at on {' and '.join(devices)}: between them values may differ by rounding, which their bounds cover."
    ]


def _family(time: Sequence[TimeNearSaddles], contrasts: Sequence[IndicatorContrast]) -> list[str]:
    if not time:
        return []
    return [
        f"Two Holm families: the time near saddles, which answers the question, in {plural(len(time), 'contrast')}; "
        f"and all other indicators in all contrasts, {plural(len(contrasts), 'test')}. Controls are in neither."
    ]
