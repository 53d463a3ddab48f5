"""When a launch gives up: its code fails in the same place whatever the arm, so the other trials would fail there too.

A typing error fails a thousand trials one by one; a machine that lacks a file fails every trial that lands on it while
others train well. Only the first is hopeless, so a launch ends early if, and only if, all of this holds:

- no trial of the store is done;
- at least ``ENOUGH`` trials failed, all by the code, with the same error in the same line;
- among them is every arm, every level of every factor, and a second block where there is one;
- no trial that runs has got further than those that failed.
"""

from __future__ import annotations

from collections.abc import Iterable

from ablate.design.trial_spec import Scalar, TrialSpec
from ablate.trial.task import TrialEnd

ENOUGH = 8


class Hopeless:
    """Counts how trials end.

    Args:
        specs: the trials that are to run.
        done: trials that the store has already.
    """

    def __init__(self, specs: Iterable[TrialSpec], done: int) -> None:
        specs = list(specs)
        self._wanted = {place for spec in specs for place in _places(spec)}
        self._blocks = min(2, len({spec.block for spec in specs}))
        self._well = done > 0
        self._seen: set[tuple[str, Scalar]] = set()
        self._seen_blocks: set[int] = set()
        self._count = 0
        self._furthest = 0
        self._alike: tuple[str, ...] | None = None

    def done(self) -> None:
        """Take note that a trial ran to its end."""
        self._well = True

    def failed(self, spec: TrialSpec, end: TrialEnd, batches: int | None) -> None:
        """Take note of a trial that failed, after so many batches; None if that is not known."""
        how = failure_in_short(end)
        if end.kind != "code" or batches is None or self._alike not in (None, how):
            self._well = True  # not all fail alike, or it cannot be told how far they got
            return
        self._alike = how
        self._count += 1
        self._furthest = max(self._furthest, batches)
        self._seen.update(_places(spec))
        self._seen_blocks.add(spec.block)

    def gives_up(self, running: Iterable[int | None]) -> bool:
        """Say whether to end the launch.

        Args:
            running: recorded batches of the trials that have not ended; None for one that has not begun.
        """
        covered = self._seen >= self._wanted and len(self._seen_blocks) >= self._blocks
        if self._well or self._count < ENOUGH or not covered:
            return False
        return all(batches is None or batches <= self._furthest for batches in running)


def failure_in_short(end: TrialEnd) -> tuple[str, ...]:
    """Return what two failures have in common that are the same: the line of code and the error's name."""
    lines = end.error.splitlines()[1:]  # the first names the trial
    places = [line.strip() for line in lines if line.strip().startswith('File "')]
    if not places:
        return tuple(lines)
    return places[-1], lines[-1].partition(":")[0]


def _places(spec: TrialSpec) -> set[tuple[str, Scalar]]:
    return {("arm", spec.arm), *spec.factors.items()}
