"""What is handed to a trial's process, and what comes back when it ends."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from ablate.design.trial_spec import CurvaturePlan, Frozen, Numerics, TrialSpec

FailureKind = Literal["code", "infrastructure", "memory", "store"]


LOOPBACK = "127.0.0.1"
"""Where workers of one machine meet."""


class ReferenceArm(Frozen):
    """The arm that an audited trial is held against: its name, and the settings and variables that differ by arm."""

    arm: str
    settings: dict[str, Any]
    env: dict[str, str]


class ProbeRequest(Frozen):
    """What is to be looked at in the weights that a trial kept, in a process of its own.

    Attributes:
        at: numbers of batches after which the weights were kept, ascending: those not looked at yet.
        plan: how.
        code: hash of the source that the trial ran from, as its row says; weights kept by another one are refused, and
            so is another one now. None to look whatever it was.
        mixed: look although it is another one now.
        surface: ids of the block's trials whose weights are projected onto a map of the loss around the last of the
            plan's snapshots of this one; empty for no map.
    """

    at: tuple[int, ...]
    plan: CurvaturePlan
    code: str | None = None
    mixed: bool = False
    surface: tuple[str, ...] = ()


class Rank(Frozen):
    """Which process of a trial with several workers this is.

    Attributes:
        number: from 0; 0 is the trial's own process, the others follow it.
        of: how many there are.
        host: address of the machine of process 0, where they meet.
        port: there; 0 until process 0 has opened one.
    """

    number: int
    of: int
    host: str
    port: int = 0


class TrialTask(Frozen):
    """One attempt at one trial, or the probe of what a trial kept.

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
        audit_whole: whether this trial's audit keeps a row for every value and makes the free run; one block's does.
        audit_slope: whether it makes the slope check; one arm's does, of those that run the same code.
        inputs: file whose batches are trained on in place of the trainable's own; None for its own.
        kept: file that the audit's inputs and values are written to; None for none.
        remote: URI of the store, if it is at one; each node then has a root of its own.
        probe: if given, nothing is trained: the weights that the trial kept are looked at, and ``attempt`` is 0.
        gpus: GPUs that the launcher assigned, as entries of ``CUDA_VISIBLE_DEVICES``; empty for a CPU arm.
        rank: which process of several this is; None for a trial with one, and before they are told apart.
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
    audit_slope: bool = True
    inputs: str | None = None
    kept: str | None = None
    remote: str | None = None
    probe: ProbeRequest | None = None
    gpus: tuple[str, ...] = ()
    rank: Rank | None = None

    @property
    def where(self) -> str:
        """The attempt in words, for messages; which worker, where there are several."""
        words = f"trial {self.spec.trial_id} (arm {self.spec.arm}, block {self.spec.block})"
        if self.probe:
            return f"probe of {words}"
        worker = f", worker {self.rank.number} of {self.rank.of}" if self.rank else ""
        return f"{words}, attempt {self.attempt}{worker}"

    def failed(self, kind: FailureKind, words: str) -> TrialEnd:
        """Return the end of an attempt that failed, as seen from outside of its process."""
        error = f"{self.where}: {words}"
        return TrialEnd(trial_id=self.spec.trial_id, attempt=self.attempt, status="failed", kind=kind, error=error)

    @property
    def follows(self) -> bool:
        """Whether this process follows another one of the same trial: it records nothing."""
        return self.rank is not None and self.rank.number > 0

    @property
    def numerics(self) -> Numerics:
        """How its process computes: as the arm does; a probe always in the same plain way, whatever the arm."""
        return Numerics(device=self.probe.plan.device) if self.probe else self.spec.numerics

    @property
    def resources(self) -> dict[str, float]:
        """What its process needs to be placed."""
        return self.probe.plan.resources if self.probe else self.spec.resources

    @property
    def share(self) -> dict[str, float]:
        """What each of its workers needs to be placed."""
        return {name: amount / self.workers for name, amount in self.resources.items()}

    @property
    def workers(self) -> int:
        """How many processes compute it together."""
        return self.numerics.workers


class TrialEnd(Frozen):
    """How an attempt ended. ``done`` and ``diverged`` are both complete: their rows are in the journal.

    ``lost``, of a worker: it failed only because another one was gone.
    ``missing``, of a probe: numbers of batches for which the trial kept no weights, since it ended before.
    """

    trial_id: str
    attempt: int
    status: Literal["done", "diverged", "failed"]
    kind: FailureKind | None = None
    error: str = ""
    lost: bool = False
    missing: Annotated[tuple[int, ...], Field(strict=False)] = ()  # a list, as it comes over the connection
