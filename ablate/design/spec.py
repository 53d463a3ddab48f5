"""A study, fully resolved: what a grid file means once every default is filled in. It is what ``spec.json`` holds.

Nothing here is read from YAML (``grid_file.py`` is) and nothing here is optional in the file's sense: an arm that
repeats another has that arm's numerics, a missing ``contrasts`` has become the default ones. Every class is frozen.
Write with ``model_dump_json``, read with ``model_validate_json``: the round trip is exact.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from ablate.design.trial_spec import (
    STALL_MINUTES,
    ArtifactPlan,
    AuditPlan,
    CheckpointPlan,
    Frozen,
    GuardPlan,
    Numerics,
    ProbePlan,
    Scalar,
    SketchPlan,
)


class Arm(Frozen):
    """A named hardware and software configuration under which every block is trained.

    Attributes:
        numerics: how it computes: environment, threads, oneDNN, precision, determinism, perturbation, noise.
        settings: the trainable's settings that this arm overrides.
        resources: what one of its trials needs to be placed, ``CPU`` included.
        blocks: the blocks it trains; all of the study's, or for a control possibly only the first ones.
        repeat: the arm that this one repeats, for a control; else None.
        kind: the kind of machine that it trains on, if kinds are to be compared; it changes no trial.
        machine: the name of that machine; given with ``kind``.
    """

    numerics: Numerics
    settings: dict[str, Any]
    resources: dict[str, float]
    blocks: tuple[int, ...]
    repeat: str | None = None
    kind: str | None = None
    machine: str | None = None

    @property
    def control(self) -> bool:
        """Say whether this arm is a control: an A/A or a perturbed repeat, kept out of the family of tests."""
        return self.repeat is not None or self.numerics.perturb is not None


class Outcome(Frozen):
    """The one number per trial that arms are compared on.

    Attributes:
        metric: the per-batch column that is averaged; ``loss`` by default.
        last: how many of the last batches the mean is over.
        evaluate: the held-out value of ``Trainable.evaluate()`` to use instead; then ``metric`` and ``last`` say
            nothing.
    """

    metric: str = "loss"
    last: int = Field(default=50, ge=1)
    evaluate: str | None = None


class Imported(Frozen):
    """Where the losses of a study come from that ablate did not run: nothing was hashed, watched or fixed beforehand.

    Attributes:
        source: the file or folder, as it was named.
        kind: what that is, in words.
        digits: the most significant digits that the text of a loss has there.
    """

    source: str
    kind: str
    digits: int

    @property
    def rounded(self) -> bool:
        """Whether losses that differ could read the same: telling every float32 apart takes 9 digits."""
        return self.digits < 9


class Cell(Frozen):
    """One combination of levels, and the arms that are trained under it.

    Attributes:
        factors: level of each factor that exists here.
        arms: names of the arms.
    """

    factors: dict[str, Scalar]
    arms: tuple[str, ...]


class Contrast(Frozen):
    """One comparison: the paired gap, other minus reference, over the blocks that both have.

    Attributes:
        arms: (reference, other), for a contrast of two arms; else None.
        factor: the factor whose levels are compared; else None.
        levels: (reference, other) levels of that factor.
        where: levels of further factors that the contrast is restricted to; empty for all.
        along: factors that are zipped with ``factor``, so that their levels change with its own.
    """

    arms: tuple[str, str] | None = None
    factor: str | None = None
    levels: tuple[Scalar, Scalar] | None = None
    where: dict[str, Scalar] = Field(default_factory=dict)
    along: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Name the comparison, ``other against reference``; its gap is the other's outcome less the reference's."""
        reference, other = self.arms or self.levels or ("", "")
        text = f"{level_text(other)} against {level_text(reference)}"
        if self.factor is not None:
            together = f" (with {', '.join(self.along)})" if self.along else ""
            text = f"{self.factor}{together}: {text}"
        if self.where:
            text += f" where {', '.join(f'{name}={level_text(level)}' for name, level in self.where.items())}"
        return text


class Margin(Frozen):
    """The largest gap that would not matter.

    Attributes:
        value: its size.
        unit: ``absolute``, in the outcome's own unit, or ``percent`` of the reference's mean outcome.
    """

    value: float = Field(gt=0)
    unit: Literal["absolute", "percent"] = "absolute"

    def of(self, reference_mean: float) -> float:
        """Return the margin in the outcome's unit, for a reference with this mean outcome."""
        return self.value if self.unit == "absolute" else self.value / 100 * abs(reference_mean)

    def __str__(self) -> str:
        return f"{self.value:g}%" if self.unit == "percent" else f"{self.value:g}"


class GridSpec(Frozen):
    """A study: arms, crossed with the levels of every factor, over the same blocks.

    Attributes:
        study: its name; also the name of its folder, and part of every random stream's key.
        question: what it asks, in words.
        trainable: import path of the trainable, ``my_package.my_module:Thing``.
        settings: settings of the trainable that all trials share.
        factors: factor name -> levels, in file order; a level overrides the setting of that name.
        cells: the combinations of levels, in file order; None if every arm meets all of them.
        arms: arm name -> arm, in file order.
        blocks: the seeds, in file order.
        batches: length of every trial.
        outcome: what is compared.
        contrasts: which comparisons are made.
        margin: the equivalence margin; None if no equivalence is to be claimed.
        guard: which batches are watched for overwritten tensors.
        audit: after which batches arithmetic is held against float64; may change between launches.
        checkpoint: how often a trial saves what it needs to go on; may change between launches.
        artifacts: after which batches trials record what the model does; may change between launches.
        sketches: after which batches trials keep a sketch of their parameters; may change between launches.
        probes: which weights trials keep, and how their curvature is looked at; may change between launches.
        stall_minutes: after how long without a batch a trial counts as hung; may change between launches.
        imported: where the losses come from, for a study that ablate did not run; else None.
    """

    study: str
    question: str
    trainable: str
    settings: dict[str, Any]
    factors: dict[str, tuple[Scalar, ...]]
    cells: tuple[Cell, ...] | None = None
    arms: dict[str, Arm]
    blocks: tuple[int, ...]
    batches: int = Field(ge=1)
    outcome: Outcome
    contrasts: tuple[Contrast, ...]
    margin: Margin | None = None
    guard: GuardPlan = Field(default_factory=GuardPlan)
    audit: AuditPlan = Field(default_factory=AuditPlan)
    checkpoint: CheckpointPlan = Field(default_factory=CheckpointPlan)
    artifacts: ArtifactPlan = Field(default_factory=ArtifactPlan)
    sketches: SketchPlan = Field(default_factory=SketchPlan)
    probes: ProbePlan = Field(default_factory=ProbePlan)
    stall_minutes: float = Field(default=STALL_MINUTES, gt=0)
    imported: Imported | None = None


def level_text(level: Scalar) -> str:
    """Return a level as YAML would write it: ``true``, not ``True``."""
    return str(level).lower() if isinstance(level, bool) else str(level)
