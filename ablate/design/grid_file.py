"""What may stand in a grid file: its shape, and for each key the words that say what is allowed there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, StringConstraints

from ablate.design.trial_spec import STALL_MINUTES, Device, Frozen, MemoryFormat, Perturbation, Precision
from ablate.design.yaml_source import Loc

MOST_BLOCKS = 10_000
"""More than any study trains; a slip of the keyboard must not fill the memory."""

LARGEST = 2**63 - 1
"""The store keeps seeds and batches in 64 bits."""

FACTOR_NAME = r"[a-z][a-z0-9_]*"
FACTOR_KEYWORDS = ("zip", "union", "exclude")
"""Keys among the factors that are none: they say how factors go together."""

Name = Annotated[str, StringConstraints(pattern=rf"\A{FACTOR_NAME}\z")]
ArmName = Annotated[str, StringConstraints(pattern=r"\A[a-z][a-z0-9_-]*\z")]
SettingName = Annotated[str, StringConstraints(pattern=r"\A[A-Za-z_][A-Za-z0-9_]*\z")]
ImportPath = Annotated[str, StringConstraints(pattern=r"\A[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*\z")]
Percent = Annotated[str, StringConstraints(pattern=r"\A(\d+(\.\d*)?|\.\d+) ?%\z")]
Text = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]
Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
FromOne = Annotated[int, Field(ge=1, le=LARGEST)]
BlockCount = Annotated[int, Field(ge=1, le=MOST_BLOCKS)]
FromZero = Annotated[int, Field(ge=0, le=LARGEST)]
Pair = Annotated[list[Any], Field(min_length=2, max_length=2)]


class ArmFile(Frozen):
    """One arm as written. Which keys are written at all matters beside ``repeat``; see ``model_fields_set``."""

    device: Device = "cpu"
    env: dict[SettingName, str] = Field(default_factory=dict)
    threads: FromOne = 1
    onednn: bool = True
    precision: Precision = "float32"
    deterministic: bool = False
    compile: bool = False
    memory_format: MemoryFormat = "contiguous"
    gradient_noise: NotNegative = 0.0
    workers: FromOne = 1
    cudnn: bool = True
    cudnn_benchmark: bool = False
    tf32: bool = False
    settings: dict[SettingName, Any] = Field(default_factory=dict)
    resources: dict[Text, Positive] = Field(default_factory=dict)
    kind: ArmName | None = None
    machine: ArmName | None = None
    repeat: Text | None = None
    perturb: Perturbation | None = None
    blocks: FromOne | None = None


class OutcomeFile(Frozen):
    """The outcome as written: a metric's mean over the last batches, or a held-out value."""

    metric: Name = "loss"
    last: FromOne | None = None
    evaluate: Name | None = None


class ContrastFile(Frozen):
    """One contrast as written."""

    arms: Annotated[list[str], Field(min_length=2, max_length=2)] | None = None
    factor: Text | None = None
    levels: Pair | None = None
    where: dict[str, Any] = Field(default_factory=dict)


class GuardFile(Frozen):
    """The guard's plan as written."""

    first: FromZero = 3
    every: FromZero = 50


class AuditFile(Frozen):
    """The audit's plan as written."""

    first: FromZero = 3
    at: list[FromZero | Literal["last"]] | None = None


class CheckpointFile(Frozen):
    """How often a long trial saves what it needs to go on, as written."""

    batches: FromOne | None = None
    minutes: Positive | None = None


class ArtifactsFile(Frozen):
    """After which batches artifacts are recorded, as written."""

    at: Annotated[list[FromZero | Literal["last"]], Field(min_length=1)] | None = None
    every: FromOne | None = None


class CurvatureFile(Frozen):
    """After how many batches weights are kept, and how their curvature is looked at, as written."""

    at: Annotated[list[FromZero | Literal["last"]], Field(min_length=1)]
    batch: FromOne = 1
    k: FromOne = 1
    steps: FromOne = 200
    density: FromZero = 1
    dtype: Literal["float64", "float32"] = "float64"
    device: Device = "cpu"
    mode: Literal["train", "eval"] = "train"
    surface: bool = False


class ProbesFile(Frozen):
    """What is looked at in a trial's weights, as written."""

    curvature: CurvatureFile


class SketchesFile(Frozen):
    """How often a sketch of the parameters is kept, as written."""

    every: FromZero = 10


class GridFile(Frozen):
    """A grid file as written."""

    study: Name
    question: Text
    trainable: ImportPath
    settings: dict[SettingName, Any] = Field(default_factory=dict)
    factors: dict[str, Any] = Field(default_factory=dict)
    arms: Annotated[dict[ArmName, ArmFile], Field(min_length=1)] = Field(default_factory=lambda: {"default": ArmFile()})
    blocks: BlockCount | Annotated[list[FromZero], Field(min_length=1)]
    batches: FromOne
    outcome: OutcomeFile = Field(default_factory=OutcomeFile)
    contrasts: list[ContrastFile | None] = Field(default_factory=list)
    margin: Positive | Percent | None = None
    guard: GuardFile = Field(default_factory=GuardFile)
    audit: AuditFile = Field(default_factory=AuditFile)
    checkpoint: CheckpointFile = Field(default_factory=CheckpointFile)
    artifacts: ArtifactsFile | None = None
    sketches: SketchesFile = Field(default_factory=SketchesFile)
    probes: ProbesFile | None = None
    stall_minutes: Positive = STALL_MINUTES


_NAME = "a name of lower-case letters, digits and _ that begins with a letter"
_LABEL = "a name of lower-case letters, digits, _ and - that begins with a letter"
_ANY = "*"
T = TypeVar("T")

ALLOWED: dict[Loc, str] = {
    ("study",): _NAME,
    ("question",): "text that says what the study asks",
    ("trainable",): "an import path, such as my_package.my_module:Thing",
    ("settings",): "a mapping of the trainable's settings to values",
    ("factors",): "a mapping of factor names to lists of levels",
    ("factors", "zip"): "factors that vary together, with lists of one length: {width: [16, 24], height: [12, 18]}; "
    "or a list of such mappings",
    ("factors", "zip", _ANY): "a list of at least one level, as long as the others of the zip",
    ("factors", "union"): "a list of mappings, each written like `factors`",
    ("factors", "union", _ANY): "a mapping, written like `factors`",
    ("factors", "exclude"): "a list of mappings such as {lr: 0.1, arm: fast}; a cell that has all of one is left out",
    ("factors", "exclude", _ANY): "a mapping of factors, or `arm`, to a level or a list of them",
    ("factors", _ANY): "a list of at least one level, or {levels: [...], when: {...}}",
    ("factors", _ANY, "levels"): "a list of at least one level",
    ("factors", _ANY, "when"): "a mapping of other factors, or `arm`, to the levels with which this factor exists",
    ("arms",): "a mapping of at least one arm name to its options",
    ("arms", _ANY): "a mapping of options ({} for none)",
    ("arms", _ANY, "device"): "cpu or cuda",
    ("arms", _ANY, "env"): "a mapping of environment variables to text",
    ("arms", _ANY, "env", _ANY): "text",
    ("arms", _ANY, "threads"): "a whole number from 1",
    ("arms", _ANY, "onednn"): "true or false",
    ("arms", _ANY, "precision"): "float32, float64 or bfloat16",
    ("arms", _ANY, "deterministic"): "true or false",
    ("arms", _ANY, "compile"): "true or false",
    ("arms", _ANY, "memory_format"): "contiguous or channels_last",
    ("arms", _ANY, "gradient_noise"): "a number from 0: units in a gradient's last place",
    ("arms", _ANY, "workers"): "a whole number from 1: processes that share each batch",
    ("arms", _ANY, "cudnn"): "true or false",
    ("arms", _ANY, "cudnn_benchmark"): "true or false",
    ("arms", _ANY, "tf32"): "true or false",
    ("arms", _ANY, "settings"): "a mapping of the trainable's settings to values",
    ("arms", _ANY, "resources"): "a mapping of resource names to positive numbers",
    ("arms", _ANY, "resources", _ANY): "a positive number",
    ("arms", _ANY, "kind"): f"{_LABEL}, such as cpu or gpu",
    ("arms", _ANY, "machine"): f"{_LABEL}: the machine that its trials run on",
    ("arms", _ANY, "repeat"): "the name of another arm",
    ("arms", _ANY, "perturb"): "one-ulp or permute-rows",
    ("arms", _ANY, "blocks"): "a whole number from 1: how many of the study's first blocks",
    ("blocks",): "a number of blocks from 1 to 10000, or a list of distinct whole numbers from 0",
    ("blocks", _ANY): f"a whole number from 0 to {LARGEST}",
    ("batches",): f"a whole number from 1 to {LARGEST}",
    ("outcome",): "a mapping: {metric: NAME, last: N} or {evaluate: NAME}",
    ("outcome", "metric"): _NAME,
    ("outcome", "last"): "a whole number from 1: how many of the last batches are averaged",
    ("outcome", "evaluate"): _NAME,
    ("contrasts",): "a list of contrasts",
    ("contrasts", _ANY): "{arms: [reference, other]} or {factor: NAME, levels: [reference, other]}",
    ("contrasts", _ANY, "arms"): "two arm names: [reference, other]",
    ("contrasts", _ANY, "arms", _ANY): "an arm's name",
    ("contrasts", _ANY, "factor"): "the name of a factor",
    ("contrasts", _ANY, "levels"): "two levels: [reference, other]",
    ("contrasts", _ANY, "where"): "a mapping of factors to one level each",
    ("margin",): "a positive number in the outcome's unit, or a percentage of the reference's mean such as \"2%\"",
    ("guard",): "a mapping: {first: N, every: N}",
    ("audit",): "a mapping: {first: N}, {at: [0, 50, last]}, or both",
    ("audit", "first"): "a whole number from 0: how many first batches are held against float64; 0 for none",
    ("audit", "at"): "a list of batches from 0, or last",
    ("audit", "at", _ANY): "a batch: a whole number from 0, or last",
    ("artifacts",): "a mapping: {at: [0, 50, last]} or {every: N}, or both",
    ("artifacts", "at"): "a list of batches from 0, or last",
    ("artifacts", "at", _ANY): "a batch: a whole number from 0, or last",
    ("artifacts", "every"): "a whole number from 1: after batch 0 and every n-th",
    ("sketches",): "a mapping: {every: N}",
    ("sketches", "every"): "a whole number from 0: after every n-th batch and the last; 0 for none",
    ("probes",): "a mapping: {curvature: {at: [0, 50, last]}}",
    ("probes", "curvature"): "a mapping: {at: [0, 50, last]} and options",
    ("probes", "curvature", "at"): "a list of numbers of batches from 0, or last",
    ("probes", "curvature", "at", _ANY): "a number of batches trained on: a whole number from 0, or last",
    ("probes", "curvature", "batch"): "a whole number from 1: batches of the trainable that make the probe set",
    ("probes", "curvature", "k"): "a whole number from 1: eigenvalues at each end",
    ("probes", "curvature", "steps"): "a whole number from 1: most dimensions of the Krylov space",
    ("probes", "curvature", "density"): "a whole number from 0: random starts for the spectral density; 0 for none",
    ("probes", "curvature", "dtype"): "float64 or float32",
    ("probes", "curvature", "device"): "cpu or cuda",
    ("probes", "curvature", "mode"): "train or eval",
    ("probes", "curvature", "surface"): "true or false",
    ("checkpoint",): "a mapping: {batches: N} or {minutes: N}, or both",
    ("checkpoint", "batches"): "a whole number from 1: save after so many batches",
    ("checkpoint", "minutes"): "a positive number: save after so many minutes",
    ("stall_minutes",): "a positive number: minutes without a batch after which a trial counts as hung",
    ("guard", "first"): "a whole number from 0: how many first batches are watched",
    ("guard", "every"): "a whole number from 0: every n-th batch is watched; 0 for none",
}
"""What may stand at each key path of a grid file; ``*`` is any name or position."""

ALLOWED_KEY: dict[Loc, str] = {
    ("settings",): "names of Python arguments: letters, digits and _, not beginning with a digit",
    ("factors",): f"for a factor, {_NAME}",
    ("factors", "zip"): f"for a factor, {_NAME}",
    ("arms",): "for an arm, a name of lower-case letters, digits, _ and - that begins with a letter",
    ("arms", _ANY, "env"): "names of environment variables: letters, digits and _, not beginning with a digit",
    ("arms", _ANY, "settings"): "names of Python arguments: letters, digits and _, not beginning with a digit",
    ("arms", _ANY, "resources"): "names of resources: any text but the empty one",
}
"""What may be a key in each mapping whose keys are the author's own names."""

KEYS: dict[Loc, tuple[str, ...]] = {
    (): tuple(GridFile.model_fields),
    ("arms", _ANY): tuple(ArmFile.model_fields),
    ("outcome",): tuple(OutcomeFile.model_fields),
    ("contrasts", _ANY): tuple(ContrastFile.model_fields),
    ("guard",): tuple(GuardFile.model_fields),
    ("audit",): tuple(AuditFile.model_fields),
    ("artifacts",): tuple(ArtifactsFile.model_fields),
    ("sketches",): tuple(SketchesFile.model_fields),
    ("probes",): tuple(ProbesFile.model_fields),
    ("probes", "curvature"): tuple(CurvatureFile.model_fields),
    ("checkpoint",): tuple(CheckpointFile.model_fields),
}
"""The valid keys of each mapping whose keys are the tool's."""


def at_batches(at: Sequence[int | Literal["last"]] | None, last: int) -> set[int]:
    """Return the batches of a list that may say ``last``."""
    return {last if batch == "last" else batch for batch in at or ()}


def look_up(table: dict[Loc, T], loc: Loc) -> tuple[Loc, T] | None:
    """Return the longest prefix of ``loc`` that has an entry in ``table``, and the entry."""
    for length in range(len(loc), -1, -1):
        for pattern, entry in table.items():
            if len(pattern) == length and all(want in (_ANY, part) for want, part in zip(pattern, loc, strict=False)):
                return loc[:length], entry
    return None
