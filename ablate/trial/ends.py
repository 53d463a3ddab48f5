"""How an attempt ended that did not come to its end, seen from its own process."""

from __future__ import annotations

import torch

from ablate.errors import AblateError
from ablate.trial.notice import ToldToLeave
from ablate.trial.task import FailureKind, TrialEnd, TrialTask
from ablate.trial.trace import last_lines


def lost(task: TrialTask, error: BaseException, at: str) -> TrialEnd:
    """Return the end of a worker that failed because another one was gone; it is no cause of its own."""
    words = f"{task.where}, {at}: {error}"
    trial_id = task.spec.trial_id
    return TrialEnd(
        trial_id=trial_id, attempt=task.attempt, status="failed", kind="infrastructure", error=words, lost=True
    )


def left(task: TrialTask, notice: ToldToLeave) -> TrialEnd:
    """Return the end of an attempt that was told to leave."""
    spec = task.spec
    error = f"{task.where}: told to leave (SIGTERM), it left {notice}"
    return TrialEnd(trial_id=spec.trial_id, attempt=task.attempt, status="failed", kind="infrastructure", error=error)


def failed(task: TrialTask, error: BaseException, at: str, kind: FailureKind = "code") -> TrialEnd:
    """Return the end of an attempt that its own code, its memory or its store failed."""
    spec = task.spec
    where = f"{task.where}, {at}"
    out_of_memory = isinstance(error, MemoryError | torch.OutOfMemoryError)  # torch's own is the GPU's
    words = str(error) if isinstance(error, AblateError) else last_lines(error)  # the latter also if str() raises
    if out_of_memory or "can't allocate memory" in words:
        kind = "memory"
    return TrialEnd(
        trial_id=spec.trial_id, attempt=task.attempt, status="failed", kind=kind, error=f"{where}:\n{words}"
    )
