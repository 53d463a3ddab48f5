"""What a launcher does after an attempt has ended, and which failures are tried again in the same launch."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from ablate.trial.task import TrialEnd, TrialTask

FURTHER_ATTEMPTS = 3
"""How often a launch tries a trial again."""

SURROUNDINGS = frozenset({"infrastructure", "memory"})
"""Kinds of failure that say nothing against the trial's code: a process, actor or node died, hung or had no memory."""


class Then(Enum):
    """What follows when the attempt is not tried again."""

    GO_ON = "go on with the other trials"
    STOP = "end what still runs"


After = Callable[[TrialTask, TrialEnd], Then | TrialTask]
"""Told of each attempt that ended, in the launching thread; a task is the attempt to run in its place."""


def tried_again(end: TrialEnd, further: int) -> bool:
    """Say whether an attempt that failed is followed by another in the same launch.

    Args:
        end: how it ended.
        further: how many further attempts the launch has made at that trial.
    """
    return end.kind in SURROUNDINGS and further < FURTHER_ATTEMPTS
