"""Cells: the levels of the factors that a trial is crossed with, in the grid's order and in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ablate.design.spec import level_text
from ablate.design.trial_spec import Scalar

Cell = tuple[tuple[str, Scalar], ...]


def cell_words(cell: Cell) -> str:
    """Return ``lr = 0.1, width = 16``; empty without factors."""
    return ", ".join(f"{name} = {level_text(level)}" for name, level in cell)


def in_grid_order(cells: Iterable[Cell], factors: Mapping[str, Sequence[Scalar]]) -> list[Cell]:
    """Return the different cells, sorted by the order of the factors' levels in the grid."""
    levels = {name: {(type(level), level): at for at, level in enumerate(order)} for name, order in factors.items()}

    def place(cell: Cell) -> tuple[int, ...]:
        return tuple(levels.get(name, {}).get((type(level), level), -1) for name, level in cell)

    return sorted(dict.fromkeys(cells), key=place)
