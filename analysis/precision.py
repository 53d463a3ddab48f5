"""Unit roundoffs and their names: how coarse the arithmetic of one side of a contrast is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from analysis.audit_row import AuditRow

UNITS = {"float64": 2.0**-53, "float32": 2.0**-24, "tf32": 2.0**-11, "float16": 2.0**-11, "bfloat16": 2.0**-8}
"""Half the distance from 1 to the next number: what one rounding can cost, as a share (Higham 2002, section 2.1)."""

ONE_STEP = 2.0
"""Roundoffs closer than this factor are one precision: no two formats lie less than 8 apart, except tf32 and float16,
which have the same, and one format's may be given as half a step or as a whole one."""

PASSED = ("equal", "rounding", "reduced")


@dataclass(frozen=True)
class Precision:
    """The coarsest arithmetic of one side.

    Attributes:
        roundoff: its unit roundoff.
        name: float32, bfloat16 and so on.
    """

    roundoff: float
    name: str

    def coarser_than(self, roundoff: float) -> bool:
        """Say whether it rounds in larger steps than those of ``roundoff``."""
        return self.roundoff > ONE_STEP * roundoff

    @property
    def reduced(self) -> bool:
        """Whether it rounds in larger steps than float32."""
        return self.coarser_than(UNITS["float32"])


def coarsest(rows: Iterable[AuditRow], declared: Sequence[str]) -> Precision | None:
    """Return the coarsest arithmetic that an audit saw or, where it says nothing, that the arms ask for.

    Args:
        rows: audits of one side.
        declared: precisions that the side's arms ask for.
    """
    seen = [row for row in rows if row.roundoff is not None and (row.check == "precision" or row.verdict in PASSED)]
    seen.sort(key=lambda row: row.check != "precision")  # its name is the arithmetic's; of equals the first is taken
    if seen:
        top = max(seen, key=lambda row: row.roundoff or 0.0)
        return Precision(top.roundoff or 0.0, _name(top, top.roundoff or 0.0))
    known = [Precision(UNITS[name], name) for name in declared if name in UNITS]
    return max(known, key=lambda one: one.roundoff, default=None)


def _name(row: AuditRow, roundoff: float) -> str:
    """Return the arithmetic's name; a distance's type is that of its value, which may have been cast back."""
    says = row.check == "precision" or UNITS.get(row.dtype) == roundoff
    return row.dtype if says and row.dtype else name_of(roundoff)


def name_of(roundoff: float) -> str:
    """Return the format whose unit roundoff this is, or the roundoff itself in words."""
    for name, unit in UNITS.items():
        if unit / ONE_STEP < roundoff <= ONE_STEP * unit:
            return name
    return f"roundoff {roundoff:.2g}"
