"""What an integrity check says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "note"]


@dataclass(frozen=True)
class Finding:
    """One thing noticed in a store.

    Attributes:
        code: stable code, ``C1`` and up; see ``check.CODES``.
        severity: ``error`` if a conclusion drawn from the store could be wrong; ``note`` if a reader should know.
        where: trial, attempt, batch or file.
        found: what is there.
        advice: what to do next; empty if nothing needs to be done.
    """

    code: str
    severity: Severity
    where: str
    found: str
    advice: str = ""

    def __str__(self) -> str:
        text = f"{self.code} {self.severity}: {self.where}: {self.found}"
        return f"{text}\n    {self.advice}" if self.advice else text
