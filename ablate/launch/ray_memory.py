"""What Tune keeps of every trial for the sake of a restore, let go of: a launch resumes from the store.

Tune holds the state of each trial as two JSON texts, which it also writes every 10 s, and of each number in a trial's
result the smallest, largest, mean and last values: 25 kB a trial until the launch ends, of 35 kB that its driver grows.
"""

from __future__ import annotations

from typing import Any


def keep_no_state(controller: Any) -> None:
    """Keep Tune's controller from making texts of its trials' states; call it before it adds its first."""
    controller._mark_trial_to_checkpoint = _nothing


def forget(trial: Any) -> None:
    """Let go of the result of a trial that ended, and of what Tune made of it."""
    kept = trial.run_metadata
    kept.last_result, kept.metric_analysis, kept.metric_n_steps = {"done": True}, {}, {}
    trial._default_result_or_future = None  # holds an object in Ray's store


def _nothing(trial: Any) -> None:
    """Take the place of what marks a trial, so that its state is written."""
