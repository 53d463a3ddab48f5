"""How far each loss, gradient and update of each arm is from float64, beside what rounding explains of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from analysis.audit_row import AuditRow

QUANTITIES = ("gradient", "update", "loss")
"""In the order of their panels."""


@dataclass(frozen=True)
class ErrorPoint:
    """One value of one arm, in shares of the reference's norm.

    Attributes:
        arm: the arm.
        quantity: loss, gradient or update.
        name: parameter or player.
        errors: its distances from float64, one for each audited batch of each trial that kept a row for it; above 0.
        bounds: what rounding explains, the least and the most over those batches; None where that is not known.
        nearness: the largest error as a share of its own batch's bound; 0 without one.
        exact: rows whose distance is exactly 0, which a logarithmic axis cannot show.
        faults: rows beyond rounding.
    """

    arm: str
    quantity: str
    name: str
    errors: tuple[float, ...]
    bounds: tuple[float, float] | None
    nearness: float
    exact: int
    faults: int


def error_points(rows: Iterable[AuditRow], arms: Sequence[str]) -> tuple[ErrorPoint, ...]:
    """Return a point for each arm and value, in the order of ``arms`` and of the rows.

    Args:
        rows: audits of any trials; those without a norm above zero have no share and are left out.
        arms: which arms.
    """
    found: dict[tuple[str, str, str], list[AuditRow]] = {}
    for row in rows:
        if row.check == "distance" and row.quantity in QUANTITIES and row.arm in arms and row.relative is not None:
            found.setdefault((row.arm, row.quantity, row.name), []).append(row)
    points = [_point(*key, own) for key, own in found.items()]
    return tuple(sorted(points, key=lambda point: (arms.index(point.arm), QUANTITIES.index(point.quantity))))


def most_telling(points: Sequence[ErrorPoint], most: int) -> list[str]:
    """Return the names to show, in the order of the model: all, or those that come nearest to their bounds.

    Args:
        points: of all arms.
        most: how many names there is room for.
    """
    names = list(dict.fromkeys(point.name for point in points if point.quantity != "loss"))
    if len(names) <= most:
        return names
    near = {name: max((p.faults > 0, p.nearness) for p in points if p.name == name) for name in names}
    kept = set(sorted(names, key=lambda name: near[name], reverse=True)[:most])
    return [name for name in names if name in kept]


def _point(arm: str, quantity: str, name: str, rows: Sequence[AuditRow]) -> ErrorPoint:
    errors = [row.relative for row in rows if row.relative is not None]
    held = [(row.relative, row.allowed / row.scale) for row in rows if row.allowed and row.scale]
    bounds = [bound for _, bound in held]
    return ErrorPoint(
        arm=arm,
        quantity=quantity,
        name=name,
        errors=tuple(error for error in errors if error > 0),
        bounds=(min(bounds), max(bounds)) if bounds else None,
        nearness=max((error / bound for error, bound in held if error is not None), default=0.0),
        exact=sum(error == 0 for error in errors),
        faults=sum(row.verdict == "bug" for row in rows),
    )
