"""A further worker of a trial: it computes its share of every batch, follows the first one and touches no store."""

from __future__ import annotations

import traceback
from typing import Any, Literal

from ablate.record.recorder import Unrecorded
from ablate.trial import numerics
from ablate.trial.ends import failed, left, lost
from ablate.trial.importing import load, source_hash
from ablate.trial.meeting import as_follower, meet
from ablate.trial.moved import machine_of
from ablate.trial.notice import ToldToLeave
from ablate.trial.provenance import Usage, machine_columns
from ablate.trial.ranks import Ranks, is_loss
from ablate.trial.resume import Resume
from ablate.trial.runner import train
from ablate.trial.session import Session
from ablate.trial.task import TrialEnd, TrialTask


def run_follower(task: TrialTask) -> TrialEnd:
    """Run a further worker of a trial: it computes with the first one and records nothing.

    Never raises for what the trainable does.
    """
    at = "before the first batch"
    session: Session | None = None
    ranks: Ranks | None = None
    ended: Literal["done", "diverged"] = "done"
    try:
        usage = Usage()
        known: dict[str, Any] = machine_columns()
        known |= numerics.columns(task.spec.numerics, numerics.apply(task.spec.numerics, task.gpus))
        trainable = load(task.spec.trainable, task.search)
        known["source_hash"] = source_hash(trainable)
        ranks, _ = meet(task, None, trainable, known)
        session = Session(as_follower(task), Unrecorded(), ranks)
        _, diverged = train(trainable, session, Resume(session, known["source_hash"], machine_of(known)))
        ended = "diverged" if diverged else "done"
        if ranks is not None:
            ranks.tell_cpu_s(usage.columns()["cpu_s"])
            ranks.see_out()
    except (Exception, SystemExit, ToldToLeave) as error:
        at = f"batch {session.batch_index}" if session else at
        if is_loss(error):
            return lost(task, error, at)
        if isinstance(error, ToldToLeave):
            if ranks is not None:
                ranks.see_out()  # the first one still makes its checkpoint
            return left(task, error)
        traceback.print_exc()
        return failed(task, error, at)
    return TrialEnd(trial_id=task.spec.trial_id, attempt=task.attempt, status=ended)
