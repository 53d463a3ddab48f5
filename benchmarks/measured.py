"""What a benchmark found, one row a comparison: printed as a table, and written for the page of all benchmarks."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

WIDTH = 150


@dataclass(frozen=True)
class Comparison:
    """One thing measured for this project and, in the same run, for what a user would pick instead.

    ``ours`` and ``peer`` hold every repeat's value, in ``unit``; no peer has no values. ``target`` is said as a user
    would read it ("<= 150 ms, >= 20 times less"), and ``met`` is what this run says of it; None: nothing was aimed at.
    """

    what: str
    unit: str
    ours: tuple[float, ...]
    peer_name: str = ""
    peer: tuple[float, ...] = ()
    target: str = ""
    met: bool | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """The peer's median over ours: above 1, ours is less. None without a peer, or where ours is not above 0."""
        return median(self.peer) / median(self.ours) if self.peer and median(self.ours) > 0 else None

    def cells(self) -> tuple[str, ...]:
        """Return the columns of ``COLUMNS``."""
        ratio = "" if self.ratio is None else f"{self.ratio:.3g}"
        met = {True: "yes", False: "**no**", None: ""}[self.met]
        ours, peer = spread(self.ours, self.unit), spread(self.peer, self.unit)
        return self.what, ours, self.peer_name, peer, ratio, self.target, met, self.note


COLUMNS = ("what", "ours", "peer", "peer's", "peer / ours", "target", "met", "note")


def markdown(rows: Sequence[Comparison]) -> list[str]:
    """Return the rows as the lines of a Markdown table."""
    table = [COLUMNS, ("---",) * len(COLUMNS), *(row.cells() for row in rows)]
    return [f"| {' | '.join(cell.replace('|', '&#124;') for cell in line)} |" for line in table]


def spread(values: Sequence[float], unit: str) -> str:
    """Return the median with its unit, and the least and the greatest where there are several."""
    if not values:
        return ""
    middle = f"{median(values):.4g} {unit}"
    return middle if len(values) == 1 else f"{middle} ({min(values):.4g} to {max(values):.4g})"


def arguments(description: str | None, repeats: int) -> argparse.ArgumentParser:
    """Return a parser with the two options that every benchmark has."""
    parser = argparse.ArgumentParser(description=(description or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=repeats, help=f"of each measurement; {repeats} unless told")
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    return parser


def report(title: str, rows: Sequence[Comparison], json_file: Path | None = None) -> None:
    """Print the rows as a table and, where asked, write them as JSON with the title."""
    console, table = Console(width=WIDTH), Table(show_lines=True)
    for column in COLUMNS:
        table.add_column(column)
    for row in rows:
        table.add_row(*(cell.replace("**no**", "[bold red]no[/]") for cell in row.cells()))
    console.print(title, style="bold", highlight=False)
    console.print(table)
    if json_file is not None:
        json_file.write_text(json.dumps({"title": title, "rows": [asdict(row) for row in rows]}, indent=1))
