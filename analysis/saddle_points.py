"""Every snapshot as a dot of a figure: loss, edges, shares, by panel, arm and trial."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from analysis.cells import Cell, cell_words, in_grid_order
from analysis.probed import GAME, Probed, Value


@dataclass(frozen=True)
class Trail:
    """One trial's values of one name over training, as one player sees it.

    Attributes:
        trial_id: the trial's.
        arm: its arm.
        panel: player and levels of the factors, in words; empty for one player and no factors.
        batches: trained on, ascending.
        values: after those batches.
        losses: there; None where it is not known.
    """

    trial_id: str
    arm: str
    panel: str
    batches: tuple[int, ...]
    values: tuple[Value, ...]
    losses: tuple[float | None, ...]


def trails(
    probed: Sequence[Probed], name: str, several: bool, factors: Mapping[str, Sequence[object]]
) -> tuple[Trail, ...]:
    """Return the trail of every trial and player that has the value at all, cell by cell in the grid's order.

    Args:
        probed: all snapshots.
        name: which value.
        several: whether there are several players, so that panels name them.
        factors: the grid's.
    """
    cells = in_grid_order((one.cell for one in probed), dict(factors))  # type: ignore[arg-type]
    by_trial: dict[tuple[str, str], list[Probed]] = {}
    for one in probed:
        if one.player != GAME and one.first(name) is not None:
            by_trial.setdefault((one.trial_id, one.player), []).append(one)
    found = []
    for own in sorted(by_trial.values(), key=lambda own: cells.index(own[0].cell)):
        own.sort(key=lambda one: one.batches)
        first = own[0]
        losses = tuple(None if (loss := one.first("loss")) is None else loss.value for one in own)
        values = tuple(value for one in own if (value := one.first(name)) is not None)
        panel = panel_words(first.player, first.cell, several)
        found.append(Trail(first.trial_id, first.arm, panel, tuple(one.batches for one in own), values, losses))
    return tuple(found)


def trials_a_panel(found: Sequence[Trail], arm: str) -> int:
    """Return how many trials of an arm a panel shows, the most of any panel."""
    counts = Counter(one.panel for one in found if one.arm == arm)
    return max(counts.values(), default=0)


def panel_words(player: str, cell: Cell, several: bool) -> str:
    """Return what a panel is about: ``player critic, lr = 0.1``."""
    return ", ".join(filter(None, (f"player {player}" if several else "", cell_words(cell))))
