"""The grid key ``probes``: after how many batches weights are kept, and what it costs to look at their curvature."""

from __future__ import annotations

from collections.abc import Sequence

from ablate.design.grid_file import CurvatureFile, ProbesFile, at_batches
from ablate.design.spec import GridSpec
from ablate.design.trial_spec import CurvaturePlan, Frozen, ProbePlan, TrialSpec
from ablate.design.yaml_source import YamlSource
from ablate.errors import Problem

GRADIENTS_A_PRODUCT = 2.6
"""At most, on the models of ``benchmarks/curvature.py`` with a probe set of one batch, whose gradient's graph is
kept."""

STREAMED = 3.4
"""The same where the graph is built anew for each product, since the probe set is several batches."""

BESIDE = 3
"""Products beside the Krylov spaces: one held against a difference of gradients, those along gradient and update."""

BASIS_BYTES = 8
"""A Krylov space is held in float64, whatever the products are made in."""

SURFACE_POINTS = 15
"""Losses along each side of a map of the loss."""


class ProbesForecast(Frozen):
    """What the probes of a study cost at most, for each player of the trainable.

    Attributes:
        trials: trials whose weights are looked at, each by a task of its own after the trials.
        snapshots: how many weights are looked at.
        products: most products with the Hessian in one.
        gradients: the same in gradients of the probe set, at the price measured for a product.
        basis_bytes: most bytes of a Krylov space for each of a player's parameters, whose number a plan does not know.
        maps: how many maps of the loss are made.
        map_losses: losses of the probe set for each.
    """

    trials: int
    snapshots: int
    products: int
    gradients: float
    basis_bytes: int
    maps: int
    map_losses: int


def read_probes(written: ProbesFile | None, batches: int, source: YamlSource) -> tuple[ProbePlan, list[Problem]]:
    """Return the plan of what is looked at, and what is wrong with it as written.

    Args:
        written: as in the file.
        batches: length of a trial.
        source: names places of the file.
    """
    if written is None:
        return ProbePlan(), []
    found = written.curvature
    problems = [
        Problem(source.where(("probes", "curvature", "at", position)), f"found {at}", f"0 to {batches}, or last")
        for position, at in enumerate(found.at)
        if at != "last" and at > batches
    ]
    return ProbePlan(curvature=_plan(found, batches)), problems


def _plan(written: CurvatureFile, batches: int) -> CurvaturePlan:
    at = sorted(at_batches(written.at, batches))
    return CurvaturePlan(at=tuple(at), **written.model_dump(exclude={"at"}))


def forecast_probes(grid: GridSpec, specs: Sequence[TrialSpec]) -> ProbesForecast | None:
    """Say what the probes of a study cost at most; None if it has none.

    Args:
        grid: the study.
        specs: its trials.
    """
    plan = grid.probes.curvature
    if plan is None:
        return None
    products = plan.steps * max(plan.density, 1) + BESIDE
    price = GRADIENTS_A_PRODUCT if plan.batch == 1 else STREAMED
    reference = next(iter(grid.arms))
    cells = {(spec.block, tuple(sorted(spec.factors.items()))) for spec in specs if spec.arm == reference}
    return ProbesForecast(
        trials=len(specs),
        snapshots=len(specs) * len(plan.at),
        products=products,
        gradients=price * products,
        basis_bytes=BASIS_BYTES * (plan.steps + 1),
        maps=len(cells) if plan.surface else 0,
        map_losses=SURFACE_POINTS**2,
    )
