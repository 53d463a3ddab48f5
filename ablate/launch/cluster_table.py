"""Prints how a batch would go on a cluster: a row for each node type, with its nodes over time."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from ablate.cluster.batch import TypeUse
from ablate.design.forecast_table import duration
from ablate.design.new_table import new_table
from ablate.launch.cluster_plan import ClusterPlan

COLUMNS = 12
"""Letters of a timeline."""

LEVELS = " ▁▂▃▄▅▆▇█"


def render_cluster(plan: ClusterPlan, console: Console) -> None:
    """Print ``plan`` on ``console``."""
    found = plan.simulation
    hours = sum(use.node_s for use in found.uses) / 3600
    console.print(
        Text(
            f"on {plan.file}: first trial after {duration(found.first_s)}, last one ends after "
            f"{duration(found.end_s)}, nodes are gone after {duration(found.idle_s)}; {hours:.3g} node-hours"
        )
    )
    head = f"over {duration(found.idle_s)}"
    table = new_table("node type", "machine", "trials", "peak", "at most", "node-hours", head, right=(2, 3, 4, 5))
    for use, one in zip(found.uses, plan.types, strict=True):
        if use.peak:
            name, trials = use.name, sum(use.trials.values())
            row = (name, one.instance or "", str(trials), str(use.peak), str(one.max_workers))
            table.add_row(*map(Text, (*row, f"{use.node_s / 3600:.3g}", timeline(use, found.idle_s))))
    console.print(table)
    if unused := [use.name for use in found.uses if not use.peak]:
        console.print(Text(f"  not needed: {', '.join(unused)}"))
    for line in plan.warnings:
        console.print(Text(f"warning: {line}", style="bold yellow"))
    for line in plan.assumed:
        console.print(Text(f"  assumed: {line}"))


def timeline(use: TypeUse, until_s: float, columns: int = COLUMNS) -> str:
    """Return the nodes of a type over time as bars, the highest its peak.

    Args:
        use: the type's nodes.
        until_s: seconds that all columns together span; each shows the most nodes within its part.
        columns: letters.
    """
    bars = []
    for column in range(columns):
        begin, end = until_s * column / columns, until_s * (column + 1) / columns
        most = max((count for at, count in use.steps if begin < at < end), default=0)
        before = [count for at, count in use.steps if at <= begin]
        most = max([most, *before[-1:]])
        bars.append(LEVELS[-(-most * (len(LEVELS) - 1) // use.peak)] if use.peak else LEVELS[0])
    return "".join(bars).rstrip()
