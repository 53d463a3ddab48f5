"""The start of a trial with several workers: they meet, compare what they run, and say which machines they are on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from ablate.design.trial_spec import ArtifactPlan, AuditPlan, CheckpointPlan, ProbePlan, SketchPlan
from ablate.trial.moved import machine_of
from ablate.trial.ranks import Ranks, check_same_code
from ablate.trial.task import TrialTask
from ablate.trial.workers import check_mean_over_rows

LATER_S = 60.0
"""Beyond ``stall_minutes``: that a trial hangs is said by its launcher, which then ends it."""


def meet(
    task: TrialTask, store: TCPStore | None, trainable: object, known: Mapping[str, Any]
) -> tuple[Ranks | None, dict[str, Any]]:
    """Wait for the other workers of a trial, if it has any.

    Args:
        task: the attempt, with the process's own number in it.
        store: where they meet, in process 0; None in the others.
        trainable: the user's.
        known: columns of this machine, and the hash of the trainable's source.

    Returns:
        The workers, None if there is one; and the columns of ``trials`` that say where they are.

    Raises:
        ArmNotInEffect: the trainable's batches cannot be shared out, or the workers run different code.
        WorkerLost: the others did not come.
    """
    if task.rank is None:
        return None, {}
    check_mean_over_rows(trainable)
    patience_s = 60 * task.spec.stall_minutes + LATER_S
    ranks = Ranks(task.rank, store, torch.device(task.spec.numerics.device), patience_s)
    names = ("host", "source_hash", "torch")
    found = ranks.facts({**{name: known[name] for name in names}, "machine": machine_of(known)})
    check_same_code(found)
    return ranks, {"worker_hosts": "; ".join(one["machine"] for one in found)}


def as_follower(task: TrialTask) -> TrialTask:
    """Return the task without everything that process 0 alone does: nothing of it changes a loss."""
    plans = {
        "audit": AuditPlan(first=0),
        "checkpoint": CheckpointPlan(),
        "artifacts": ArtifactPlan(),
        "sketches": SketchPlan(every=0),
        "probes": ProbePlan(),
    }
    return task.model_copy(update={"spec": task.spec.model_copy(update=plans), "kept": None})
