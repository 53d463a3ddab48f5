"""The look of this tool's tables of plans."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.table import Table


def new_table(*columns: str, right: tuple[int, ...]) -> Table:
    """Return a table without rows.

    Args:
        columns: their heads.
        right: positions of the columns that are aligned to the right.
    """
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for position, column in enumerate(columns):
        table.add_column(column, justify="right" if position in right else "left", overflow="fold")
    return table
