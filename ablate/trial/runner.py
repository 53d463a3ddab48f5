"""Runs one attempt at one trial in this process, with no Ray: from a task to a journal and how it ended."""

from __future__ import annotations

import traceback
from ablate.errors import AblateError, StoreError
from ablate.record.paths import StorePaths
from ablate.record.recorder import Recorder
from ablate.trial import context, numerics, structured
from ablate.trial.importing import is_structured, load, source_hash
from ablate.trial.provenance import Usage, machine_columns
from ablate.trial.session import Diverged, Session
from ablate.trial.task import FailureKind, TrialEnd, TrialTask

TRACE_LINES = 12
"""How much of a traceback a failure carries to the terminal; the whole of it is in the trial's log."""


def run_trial(task: TrialTask) -> TrialEnd:
    """Run a trial whose process already has the arm's environment and has run no torch operation.

    Never raises for what the trainable does: a failure is returned, with the batch it happened at.
    """
    session: Session | None = None
    try:
        usage = Usage()
        effect = numerics.apply(task.spec.numerics)
        trainable = load(task.spec.trainable, task.search)
        code = source_hash(trainable)
        with Recorder(StorePaths(task.root), task.spec, task.attempt) as recorder:
            session = Session(task, recorder)
            diverged = False
            outcomes: dict[str, float] = {}
            try:
                if is_structured(trainable):
                    outcomes = structured.train(trainable(**task.spec.settings), session)
                else:
                    outcomes = context.train(trainable, dict(task.spec.settings), session)
            except Diverged:
                diverged = True
            recorder.finish(
                status="diverged" if diverged else "done",
                batches=session.batch_index + diverged,
                **session.final_columns(),
                **{f"evaluate.{name}": value for name, value in outcomes.items()},
                **usage.columns(),
                **machine_columns(),
                **numerics.columns(task.spec.numerics, effect),
                source_hash=code,
                git_commit=task.git_commit,
                git_dirty=task.git_dirty,
            )
        return TrialEnd(trial_id=task.spec.trial_id, attempt=task.attempt, status="diverged" if diverged else "done")
    except Exception as error:
        traceback.print_exc()
        return _failed(task, error, session)


def _failed(task: TrialTask, error: Exception, session: Session | None) -> TrialEnd:
    at = f"trial {task.spec.trial_id} (arm {task.spec.arm}, block {task.spec.block}), attempt {task.attempt}"
    where = f"{at}, batch {session.batch_index}" if session else f"{at}, before the first batch"
    kind: FailureKind = "code"
    if isinstance(error, StoreError):
        kind = "store"
    elif isinstance(error, MemoryError) or "can't allocate memory" in str(error):
        kind = "memory"
    if isinstance(error, AblateError):
        words = str(error)
    else:
        words = "".join(traceback.format_exception(error)).rstrip()
        words = "\n".join(words.splitlines()[-TRACE_LINES:])
    return TrialEnd(
        trial_id=task.spec.trial_id, attempt=task.attempt, status="failed", kind=kind, error=f"{where}:\n{words}"
    )

