"""Mean and spread of each arm's outcomes, controls included."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ablate.design.spec import Arm
from analysis.controls import Control, arm_control
from analysis.digits import plural
from analysis.outcomes import Outcome
from analysis.trials import Trial


@dataclass(frozen=True)
class ArmSummary:
    """Outcomes of one arm over all its trials.

    Attributes:
        arm: its name.
        control: kind of control, None for an arm under comparison.
        some_blocks: which blocks it has, in words, if not all of the study; else empty.
        trials: trials planned.
        n: trials with an outcome.
        mean: mean outcome; None if n is 0.
        sd: standard deviation between trials; None if n is below 2.
        smallest: smallest outcome; None if n is 0.
        largest: largest outcome; None if n is 0.
    """

    arm: str
    control: Control | None
    some_blocks: str
    trials: int
    n: int
    mean: float | None
    sd: float | None
    smallest: float | None
    largest: float | None


def summarise_arm(
    name: str, arm: Arm, trials: Sequence[Trial], outcomes: Mapping[str, Outcome], blocks: Sequence[int]
) -> ArmSummary:
    """Summarise one arm.

    Args:
        name: the arm's name.
        arm: the arm.
        trials: all planned trials of the study.
        outcomes: by trial id.
        blocks: all blocks of the study.

    Returns:
        ArmSummary: over blocks and factor levels alike.
    """
    own = [trial for trial in trials if trial.arm == name]
    values = [value for trial in own if (value := outcomes[trial.trial_id].value) is not None]
    return ArmSummary(
        arm=name,
        control=arm_control(arm),
        some_blocks=_some_blocks(arm.blocks, blocks),
        trials=len(own),
        n=len(values),
        mean=statistics.fmean(values) if values else None,
        sd=statistics.stdev(values) if len(values) > 1 else None,
        smallest=min(values, default=None),
        largest=max(values, default=None),
    )


def _some_blocks(own: Sequence[int], blocks: Sequence[int]) -> str:
    if set(own) == set(blocks):
        return ""
    if set(own) == set(blocks[: len(own)]):
        return f"first {plural(len(own), 'block')}"
    return f"block{'s' if len(own) > 1 else ''} {', '.join(map(str, own))}"
