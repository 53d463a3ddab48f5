"""Runs one attempt at one trial in this process, with no Ray: from a task to a journal and how it ended."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from ablate.errors import StoreError
from ablate.record.paths import StorePaths
from ablate.record.recorder import Recorder
from ablate.trial import context, cuda, numerics, structured
from ablate.trial.compiled import compile_columns
from ablate.trial.ends import failed, left, lost
from ablate.trial.importing import is_structured, load, source_hash
from ablate.trial.meeting import meet
from ablate.trial.moved import machine_of
from ablate.trial.notice import ToldToLeave
from ablate.trial.permuted import check_independent_rows
from ablate.trial.provenance import Usage, machine_columns
from ablate.trial.ranks import is_loss, listen
from ablate.trial.resume import Resume
from ablate.trial.session import Diverged, Session
from ablate.trial.task import TrialEnd, TrialTask


def run_trial(task: TrialTask, tell: Callable[[dict[str, Any]], None] = lambda message: None) -> TrialEnd:
    """Run a trial whose process already has the arm's environment and has run no torch operation.

    Never raises for what the trainable does: a failure is returned, with the batch it happened at.

    Args:
        task: the attempt; with several workers their first process.
        tell: told where the other workers meet this one.
    """
    store = None
    if task.rank is not None:
        store = listen(task.rank)
        tell({"meet": store.port})
    usage = Usage()
    git = {"git_commit": task.git_commit, "git_dirty": task.git_dirty, "git_diff": task.git_diff}
    known: dict[str, Any] = {**git, **machine_columns()}
    try:
        with Recorder(StorePaths(Path(task.root)), task.spec, task.attempt) as recorder:
            at = "before the first batch"
            session: Session | None = None
            try:
                effect = numerics.apply(task.spec.numerics, task.gpus)
                known |= numerics.columns(task.spec.numerics, effect)
                trainable = load(task.spec.trainable, task.search)
                known["source_hash"] = source_hash(trainable)
                if task.spec.numerics.perturb == "permute-rows":
                    check_independent_rows(trainable)
                ranks, met = meet(task, store, trainable, known)
                known |= met
                session = Session(task, recorder, ranks)
                resume = Resume(session, known["source_hash"], machine_of(known))
                known |= {"resumed_at": resume.batches or None, "moved_from": resume.moved_from}
                outcomes, diverged = train(trainable, session, resume)
                session.watches.late_findings()
                used = usage.columns()
                if ranks is not None and not diverged:  # of a loss that is no number each worker hears when it looks
                    used["cpu_s"] = ranks.all_cpu_s(used["cpu_s"])
            except StoreError:
                raise
            except (Exception, SystemExit, ToldToLeave) as error:
                at = f"batch {session.batch_index}" if session else at
                if task.rank is not None and is_loss(error):  # what became of the other says how the attempt ended
                    return lost(task, error, at)
                if isinstance(error, ToldToLeave):
                    end = left(task, error)
                else:
                    traceback.print_exc()
                    end = failed(task, error, at)
                known |= _late_columns(task)
                recorder.finish("failed", failure_kind=end.kind, error=end.error, **known, **usage.columns())
                return end
            recorder.finish(
                "diverged" if diverged else "done",
                evaluate=outcomes,
                **known,
                **_late_columns(task),
                **session.final_columns(),
                **used,
            )
        resume.complete()
        return TrialEnd(trial_id=task.spec.trial_id, attempt=task.attempt, status="diverged" if diverged else "done")
    except StoreError as error:
        return failed(task, error, "recording", kind="store")


def train(trainable: Any, session: Session, resume: Resume) -> tuple[dict[str, float], bool]:
    """Run every batch; return the held-out outcomes, and whether a loss was not finite."""
    settings = dict(session.spec.settings)
    try:
        try:
            if is_structured(trainable):
                return structured.train(trainable, session, resume), False
            return context.train(trainable, settings, session, resume), False
        except Diverged:
            raise
        except Exception:
            with suppress(RuntimeError):  # the device may be what failed; then its last losses are gone
                session.flush()  # an earlier loss that is no number ended the trial there, as it does on a CPU
            raise
    except Diverged:
        return {}, True


def _late_columns(task: TrialTask) -> dict[str, object]:
    return {**compile_columns(task.spec.numerics), **cuda.usage_columns()}
