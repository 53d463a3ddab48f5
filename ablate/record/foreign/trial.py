"""A trial that ablate did not run, as far as its files tell."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ablate.design.trial_spec import Scalar

_DIGITS = re.compile(r"^[+-]?0*\.?0*(?P<digits>[0-9.]*)")


@dataclass(frozen=True)
class ForeignTrial:
    """One trial.

    Attributes:
        arm: what it is compared by.
        block: its seed.
        factors: levels of what else was varied.
        where: file, and line where it begins, for messages.
        steps: the numbers that its batches went by, ascending.
        losses: one for each step; none for a trial that was begun and reported nothing.
        digits: the most significant digits that the text of a loss has.
        durations: seconds of each batch; empty if not recorded.
        facts: columns of ``trials`` that are known.
    """

    arm: str
    block: int
    factors: Mapping[str, Scalar]
    where: str
    steps: Sequence[int]
    losses: Sequence[float]
    digits: int
    durations: Sequence[float] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The trial in words."""
        cell = "".join(f", {name} {level}" for name, level in self.factors.items())
        return f"arm {self.arm}{cell}, block {self.block}"


@dataclass(frozen=True)
class Names:
    """What the columns, or the parameters, are called; None where the reader has a default of its own."""

    arm: str | None = None
    block: str | None = None
    step: str | None = None
    loss: str | None = None
    factors: tuple[str, ...] = ()


def significant_digits(text: str) -> int:
    """Count the digits of a number's text from the first that is not 0 on; 0 for ``nan`` and ``inf``."""
    found = _DIGITS.match(text.strip())
    return len(found["digits"].replace(".", "")) if found else 0
