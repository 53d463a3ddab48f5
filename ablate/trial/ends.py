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
    return task.failed("infrastructure", f"told to leave (SIGTERM), it left {notice}")


def failed(task: TrialTask, error: BaseException, at: str, kind: FailureKind = "code") -> TrialEnd:
    """Return the end of an attempt that its own code, its memory or its store failed."""
    spec = task.spec
    where = f"{task.where}, {at}"
    kind = "memory" if out_of_memory(error) else kind
    return TrialEnd(
        trial_id=spec.trial_id, attempt=task.attempt, status="failed", kind=kind, error=f"{where}:\n{in_words(error)}"
    )


def out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out: Python's or the allocator's, or torch's own error of a GPU."""
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in in_words(error)


def in_words(error: BaseException) -> str:
    """Return what an error says: of ablate's own the words, of others the last lines of their traceback."""
    return str(error) if isinstance(error, AblateError) else last_lines(error)  # the latter also if str() raises
