"""What is handed to a trial's process, and what comes back when it ends."""

from __future__ import annotations

from typing import Any, Literal

from ablate.design.trial_spec import Frozen, TrialSpec

FailureKind = Literal["code", "infrastructure", "memory", "store"]


class ReferenceArm(Frozen):
    """The arm that an audited trial is held against: its name, and the settings and variables that differ by arm."""

    arm: str
    settings: dict[str, Any]
    env: dict[str, str]


class TrialTask(Frozen):
    """One attempt at one trial.

    Attributes:
        spec: the trial.
        root: absolute path of the store; of a store at a URI, of the launching machine's working copy.
        attempt: from 1; part of the journal's file names.
        cwd: the folder the study was launched from, where relative paths of a trainable start.
        search: folders put in front of the import path.
        weights: sha256 of the stored initial weights; None if the trainable gave none.
        data_hash: hash of the data set, from ``prepare()``; None if the trainable gave none.
        git_commit: commit of the folder the study was launched from; empty outside a repository.
        git_dirty: whether that folder had uncommitted changes; None outside a repository.
        git_diff: name of the stored diff of those changes; None without any.
        reference: the arm that the audit holds this one against; None for its own.
        audit_whole: whether this trial's audit makes the slope check and keeps a row for every value; one block's does.
        inputs: file whose batches are trained on in place of the trainable's own; None for its own.
        kept: file that the audit's inputs and values are written to; None for none.
        remote: URI of the store, if it is at one; each node then has a root of its own.
        gpus: GPUs that the launcher assigned, as entries of ``CUDA_VISIBLE_DEVICES``; empty for a CPU arm.
    """

    spec: TrialSpec
    root: str
    attempt: int
    cwd: str
    search: tuple[str, ...]
    weights: str | None = None
    data_hash: str | None = None
    git_commit: str = ""
    git_dirty: bool | None = None
    git_diff: str | None = None
    reference: ReferenceArm | None = None
    audit_whole: bool = True
    inputs: str | None = None
    kept: str | None = None
    remote: str | None = None
    gpus: tuple[str, ...] = ()


class TrialEnd(Frozen):
    """How an attempt ended. ``done`` and ``diverged`` are both complete: their rows are in the journal."""

    trial_id: str
    attempt: int
    status: Literal["done", "diverged", "failed"]
    kind: FailureKind | None = None
    error: str = ""
