"""The page of the curvature benchmark, in Markdown: the machine, the packages, the comparisons, every method run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from rich.table import Table

from benchmarks.measured import Comparison, markdown
from benchmarks.page import READ
from benchmarks.surroundings import Surroundings

PEERS = ("PyHessian", "curvlinops-for-pytorch", "hessian-eigenthings")
COMPARED = """\
"Both ends and density" is one run of ours against what gives both: a package that does, or `eigsh` followed by a plain
quadrature of as many steps as ours made. "No density on either side" is ours without one against `eigsh` alone. A
method that is told its steps is told the fewest that suffice on this network, which nobody knows beforehand; it is
listed below, and is no row of the targets but PyHessian's. "Wrong" is in how many runs an end was off by more than
1e-3. On "a close pair" and "late", whose ends are hard to find, the target is to be right. Seconds are processor time
of one thread.
"""
MARKUP = re.compile(r"\[/?[a-z ]*\]")


def curvature_page(
    surroundings: Surroundings,
    title: str,
    rows: Sequence[Comparison],
    tables: Sequence[Table],
    seconds: float,
    broken: bool,
) -> str:
    """Return the page; ``tables`` are those of every network's methods, ``broken`` says that not all was measured."""
    aimed = [row.met for row in rows if row.met is not None]
    lines = [f"# {title}", "", *READ.splitlines(), "", *COMPARED.splitlines(), "", *surroundings.lines()]
    lines += [f"- compared: {', '.join(f'{name} {_version(name)}' for name in PEERS)}", ""]
    lines += [f"Written by `{surroundings.command}` in {seconds / 60:.0f} min.", ""]
    if broken:
        lines += ["**Broken off: what is not here was not measured.**", ""]
    lines += [*markdown(rows), "", f"{sum(aimed)} of {len(aimed)} targets met.", ""]
    for table in tables:
        lines += [f"## {table.title}", "", "In brackets: times ours.", "", *_lines(table), ""]
    return "\n".join(lines)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not there"


def _lines(table: Table) -> list[str]:
    """Return a table of rich's as lines of Markdown; what stands out there is bold here."""
    columns = [[MARKUP.sub("**", str(cell)) for cell in column.cells] for column in table.columns]
    heads = [str(column.header) for column in table.columns]
    return [f"| {' | '.join(line)} |" for line in (heads, ["---"] * len(heads), *zip(*columns, strict=True))]
