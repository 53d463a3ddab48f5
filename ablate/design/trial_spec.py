"""One trial, fully resolved: everything that decides its arithmetic, and the id that follows from it."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Scalar = bool | int | float | str
Precision = Literal["float32", "float64", "bfloat16"]
Perturbation = Literal["one-ulp", "permute-rows"]
MemoryFormat = Literal["contiguous", "channels_last"]
Device = Literal["cpu", "cuda"]


class Frozen(BaseModel):
    """An immutable value that refuses unknown keys and silent conversions."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Numerics(Frozen):
    """How an arm computes: applied before torch is imported (env) or before its first operation (the rest).

    Attributes:
        env: environment variables.
        threads: threads of one operation on the CPU.
        onednn: whether CPU operations may use oneDNN.
        precision: of parameters and floating data.
        deterministic: only algorithms that torch calls deterministic; an operation without one fails the trial.
        perturb: what makes this arm a control: one-ulp moves every initial weight to a neighbouring number,
            permute-rows reorders the rows of every batch.
        device: where it computes; never chosen by what happens to be there.
        cudnn: whether CUDA operations may use cuDNN.
        cudnn_benchmark: cuDNN times its algorithms and takes the fastest, which may differ from run to run.
        tf32: float32 matrix products and convolutions on CUDA round their inputs to 10 bits of mantissa. Off by
            default for both, unlike in torch, where convolutions have it on.
        compile: the loss function (forward pass and loss, and with them their backward) runs through torch.compile.
        memory_format: how 4-d parameters and batch tensors (images, kernels) lie in memory.
        gradient_noise: every element of every gradient is moved before the optimiser's step, evenly at random by at
            most so many units in its own last place.
        workers: processes that compute each batch together, each its share of the rows; see ``ablate.trial.workers``.
    """

    env: dict[str, str] = Field(default_factory=dict)
    threads: int = Field(default=1, ge=1)
    onednn: bool = True
    precision: Precision = "float32"
    deterministic: bool = False
    perturb: Perturbation | None = None
    device: Device = "cpu"
    cudnn: bool = True
    cudnn_benchmark: bool = False
    tf32: bool = False
    compile: bool = False
    memory_format: MemoryFormat = "contiguous"
    gradient_noise: float = Field(default=0.0, ge=0)
    workers: int = Field(default=1, ge=1)


_LATER = ("device", "cudnn", "cudnn_benchmark", "tf32", "compile", "memory_format", "gradient_noise", "workers")
"""Numerics that came after the first stores were written. At their defaults they are left out of a trial's id, so
that the trials of those stores keep theirs."""


class GuardPlan(Frozen):
    """Which batches the guard watches and whose contents are hashed: the first ones and every n-th (0: none)."""

    first: int = Field(default=3, ge=0)
    every: int = Field(default=50, ge=0)

    def covers(self, batch_index: int) -> bool:
        """Say whether ``batch_index`` (from 0) is watched."""
        return batch_index < self.first or (self.every > 0 and batch_index % self.every == 0)


class AuditPlan(Frozen):
    """After which batches a trial's arithmetic is held against float64: the first ones, and those named.

    ``first=0`` without further batches turns it off.
    """

    first: int = Field(default=3, ge=0)
    at: tuple[int, ...] = ()

    def covers(self, batch_index: int) -> bool:
        """Say whether ``batch_index`` (from 0) is audited."""
        return batch_index < self.first or batch_index in self.at

    def __bool__(self) -> bool:
        return bool(self.first or self.at)


class CheckpointPlan(Frozen):
    """How often a long trial saves what it needs to go on: every so many batches, or minutes, or never (neither)."""

    batches: int | None = Field(default=None, ge=1)
    minutes: float | None = Field(default=None, gt=0)

    def due(self, batches: int, seconds: float) -> bool:
        """Say whether to save, so many batches and seconds after the last time."""
        by_batches = self.batches is not None and batches >= self.batches
        return by_batches or (self.minutes is not None and seconds >= 60 * self.minutes)


class ArtifactPlan(Frozen):
    """After which batches a trial records artifacts: those named, and every n-th (0: none), which 0 is one of."""

    at: tuple[int, ...] = ()
    every: int = Field(default=0, ge=0)

    def covers(self, batch_index: int) -> bool:
        """Say whether artifacts are recorded after ``batch_index`` (from 0)."""
        return batch_index in self.at or (self.every > 0 and batch_index % self.every == 0)

    def __bool__(self) -> bool:
        return bool(self.at or self.every)


class SketchPlan(Frozen):
    """After which batches a trial keeps a sketch of its parameters: every n-th and the last (0: none at all).

    The initial weights are kept too, as batch -1. At 10, a sketch costs at most 1 % of a 5 ms step of 100 000
    parameters (``benchmarks/sketch.py``), and both grow with the parameters.
    """

    every: int = Field(default=10, ge=0)

    def covers(self, batch_index: int, batches: int) -> bool:
        """Say whether a sketch is kept after ``batch_index`` (-1: before the first) of so many batches."""
        return self.every > 0 and ((batch_index + 1) % self.every == 0 or batch_index == batches - 1)


class CurvaturePlan(Frozen):
    """After how many batches a trial's weights are kept, and how their curvature is looked at afterwards.

    Attributes:
        at: numbers of batches trained on, ascending; 0 is the initial weights.
        batch: how many of the trainable's batches make the probe set.
        k: eigenvalues at each end.
        steps: most dimensions of the Krylov space.
        density: random starts for the spectral density; 0 for none: then a probe starts from what the one before found.
        dtype: precision of the products.
        device: where they are computed.
        mode: of the model's modules: dropout and batch norm work differently in the two.
        surface: whether the loss is mapped around the last snapshot of each block's reference arm.
    """

    at: tuple[int, ...]
    batch: int = Field(default=1, ge=1)
    k: int = Field(default=1, ge=1)
    steps: int = Field(default=200, ge=1)
    density: int = Field(default=1, ge=0)
    dtype: Literal["float64", "float32"] = "float64"
    device: Device = "cpu"
    mode: Literal["train", "eval"] = "train"
    surface: bool = False

    @property
    def how(self) -> dict[str, Any]:
        """How weights are looked at, whichever they are: the other keys as in a grid file."""
        return self.model_dump(mode="json", exclude={"at"})

    @property
    def resources(self) -> dict[str, float]:
        """What the task of one trial's probes needs to be placed."""
        return {"CPU": 1.0, **({"GPU": 1.0} if self.device == "cuda" else {})}


class ProbePlan(Frozen):
    """What is looked at in a trial's weights once it has ended; false if nothing is."""

    curvature: CurvaturePlan | None = None

    def covers(self, batches: int) -> bool:
        """Say whether the weights are kept after so many batches (0: before the first)."""
        return self.curvature is not None and batches in self.curvature.at

    def __bool__(self) -> bool:
        return self.curvature is not None


STALL_MINUTES = 30.0
"""Minutes without a recorded batch after which a trial counts as hung, unless the grid says otherwise."""


class TrialSpec(Frozen):
    """One trial. ``settings`` already holds the arm's and the factors' values."""

    study: str
    trainable: str
    settings: dict[str, Any]
    arm: str
    numerics: Numerics
    factors: dict[str, Scalar]
    block: int
    batches: int
    guard: GuardPlan
    audit: AuditPlan = AuditPlan()
    checkpoint: CheckpointPlan = CheckpointPlan()
    artifacts: ArtifactPlan = ArtifactPlan()
    sketches: SketchPlan = SketchPlan()
    probes: ProbePlan = ProbePlan()
    stall_minutes: float = Field(default=STALL_MINUTES, gt=0)
    resources: dict[str, float]

    @property
    def trial_id(self) -> str:
        """Content hash: a letter and 15 hex digits, the same on every machine.

        Resources, guard, audit, checkpoints, artifacts, sketches, probes and stall are left out: where a trial runs and
        what is looked at change no loss (both tested), so neither may change its identity.
        """
        looks = {"guard", "audit", "checkpoint", "artifacts", "sketches", "probes"}
        content = self.model_dump(exclude={"resources", "stall_minutes", *looks})
        for name in _LATER:
            if content["numerics"][name] == Numerics.model_fields[name].default:
                del content["numerics"][name]
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return "t" + hashlib.sha256(text.encode()).hexdigest()[:15]
