"""Prints a plan for people: what would run, what it needs, and what its tests can reach at best."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ablate.design.new_table import new_table
from ablate.design.plan import ArmPlan, ContrastPlan, Plan
from ablate.design.probes import ProbesForecast
from ablate.design.spec import level_text


def render(plan: Plan, console: Console) -> None:
    """Print ``plan`` on ``console``."""
    console.print(Text(f"{plan.study}: {plan.question}", style="bold"))
    each = f" of {plan.batches // len(plan.trials)} batches" if plan.trials else ""
    blocks = ", ".join(map(str, plan.blocks))
    console.print(Text(f"{len(plan.trials)} trials{each}, {plan.batches} batches in all; blocks {blocks}"))
    for factor, levels in plan.factors.items():
        console.print(Text(f"factor {factor}: {', '.join(level_text(level) for level in levels)}"))
    console.print(_arms(plan.arms))
    if plan.probes is not None:
        console.print(Text(_probes(plan.probes)))
    if plan.contrasts:
        console.print(_contrasts(plan.contrasts))
    margin = "none fixed, so no equivalence can be claimed" if plan.margin is None else plan.margin
    console.print(Text(f"equivalence margin: {margin}"))
    for warning in plan.warnings:
        console.print(Text(f"warning: {warning}", style="bold yellow"))


def _probes(probes: ProbesForecast) -> str:
    text = (
        f"probes: {probes.snapshots} snapshots of {probes.trials} trials, for each player at most {probes.products} "
        f"products with the Hessian each, which take as long as {probes.gradients:.0f} gradients of the probe set, "
        f"and at most {probes.basis_bytes / 1000:.2g} GB of memory for each million of its parameters, beside its graph"
    )
    if probes.maps:
        text += f"; {probes.maps} maps of {probes.map_losses} losses"
    return text


def _arms(arms: tuple[ArmPlan, ...]) -> Table:
    table = new_table("arm", "trials", "batches", "threads", "resources of a trial", "control", right=(1, 2, 3))
    for arm in arms:
        needs = ", ".join(f"{name} {amount:g}" for name, amount in arm.resources.items())
        control = " ".join(filter(None, [arm.perturb, f"of {arm.repeat}" if arm.repeat else ""]))
        if arm.repeat and not arm.perturb:
            control = f"repeat {control}"
        row = (arm.arm, str(arm.trials), str(arm.batches), str(arm.threads), needs, control)
        table.add_row(*map(Text, row))
    return table


def _contrasts(contrasts: tuple[ContrastPlan, ...]) -> Table:
    table = new_table("contrast", "blocks", "cells", "smallest p", "after Holm", right=(1, 2, 3, 4))
    for contrast in contrasts:
        adjusted = f"{contrast.smallest_adjusted_p:.2g}" if contrast.in_family else "control"
        row = (contrast.label, str(contrast.pairs), str(contrast.cells), f"{contrast.smallest_p:.2g}", adjusted)
        table.add_row(*map(Text, row))
    return table
