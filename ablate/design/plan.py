"""What a launch would run and what its tests could show at best, computed from the grid alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from ablate.design.attainable import LEVEL, blocks_needed, holm, smallest_p
from ablate.design.comparable import compared_cells
from ablate.design.cross import trials
from ablate.design.own_settings import own_settings_words
from ablate.design.probes import ProbesForecast, forecast_probes
from ablate.design.spec import Arm, Contrast, GridSpec
from ablate.design.trial_spec import Frozen, Scalar, TrialSpec
from ablate.design.yaml_source import Loc, dotted
from ablate.errors import BadInput, Problem


class ArmPlan(Frozen):
    """What one arm costs.

    Attributes:
        arm: its name.
        control: it is a control.
        repeat: the arm it repeats, for a control.
        perturb: its perturbation, if any.
        trials: number of its trials.
        batches: batches of all its trials together.
        threads: threads of one trial.
        resources: what one trial needs to be placed.
    """

    arm: str
    control: bool
    repeat: str | None
    perturb: str | None
    trials: int
    batches: int
    threads: int
    resources: dict[str, float]


class ContrastPlan(Frozen):
    """What one contrast can show.

    Attributes:
        label: its name, ``other against reference``.
        pairs: number of blocks that both sides have.
        cells: number of cells that are paired within each block; its outcome on each side is their mean.
        in_family: it is one of the tests that Holm's adjustment counts; contrasts with a control are not.
        smallest_p: the smallest p that a two-sided sign-flip test of so many pairs can give.
        smallest_adjusted_p: the same after Holm's adjustment, if every contrast of the family reaches its smallest.
    """

    label: str
    pairs: int
    cells: int
    in_family: bool
    smallest_p: float
    smallest_adjusted_p: float


class TrialPlan(Frozen):
    """One trial, in launch order."""

    trial_id: str
    arm: str
    block: int
    factors: dict[str, Scalar]


class Plan(Frozen):
    """What a launch would run.

    Attributes:
        study: its name.
        question: what it asks.
        margin: the equivalence margin as text; None if no equivalence is to be claimed.
        blocks: the seeds.
        factors: levels of each factor.
        arms: the arms, in file order.
        trials: every trial, in launch order.
        batches: batches of all trials together.
        probes: what the probes of the weights that trials keep cost at most; None without any.
        contrasts: the comparisons, in file order.
        warnings: what the study will not be able to answer.
    """

    study: str
    question: str
    margin: str | None
    blocks: tuple[int, ...]
    factors: dict[str, tuple[Scalar, ...]]
    arms: tuple[ArmPlan, ...]
    trials: tuple[TrialPlan, ...]
    batches: int
    probes: ProbesForecast | None = None
    contrasts: tuple[ContrastPlan, ...]
    warnings: tuple[str, ...]


def plan(
    grid: GridSpec, cores: int, where: Callable[[Loc], str] = dotted, specs: Sequence[TrialSpec] | None = None
) -> Plan:
    """Plan a study.

    Args:
        grid: the study.
        cores: the most cores that one trial could use here.
        where: turns a key path into a place; pass ``YamlSource.where`` to name lines.
        specs: the study's trials, if they have been listed already.

    Raises:
        BadInput: an arm asks for more threads than there are cores.
    """
    refuse_oversubscription(grid, cores, where)
    planned = trials(grid) if specs is None else specs
    count = Counter(spec.arm for spec in planned)
    contrasts = _contrasts(grid)
    return Plan(
        study=grid.study,
        question=grid.question,
        margin=str(grid.margin) if grid.margin is not None else None,
        blocks=grid.blocks,
        factors=grid.factors,
        arms=tuple(
            ArmPlan(
                arm=name,
                control=arm.control,
                repeat=arm.repeat,
                perturb=arm.numerics.perturb,
                trials=count[name],
                batches=count[name] * grid.batches,
                threads=arm.numerics.threads,
                resources=arm.resources,
            )
            for name, arm in grid.arms.items()
        ),
        trials=tuple(
            TrialPlan(trial_id=spec.trial_id, arm=spec.arm, block=spec.block, factors=spec.factors) for spec in planned
        ),
        batches=len(planned) * grid.batches,
        probes=forecast_probes(grid, planned),
        contrasts=contrasts,
        warnings=(*_warnings(contrasts, grid), *_of_settings(grid)),
    )


def _contrasts(grid: GridSpec) -> tuple[ContrastPlan, ...]:
    pairs = [_pairs(contrast, grid) for contrast in grid.contrasts]
    in_family = [not any(grid.arms[arm].control for arm in contrast.arms or ()) for contrast in grid.contrasts]
    smallest = [smallest_p(count) for count in pairs]
    family = iter(holm([p for p, member in zip(smallest, in_family, strict=True) if member]))
    return tuple(
        ContrastPlan(
            label=contrast.label,
            pairs=pairs[position],
            cells=len(compared_cells(contrast, grid).pairs),
            in_family=in_family[position],
            smallest_p=smallest[position],
            smallest_adjusted_p=next(family) if in_family[position] else smallest[position],
        )
        for position, contrast in enumerate(grid.contrasts)
    )


def _pairs(contrast: Contrast, grid: GridSpec) -> int:
    """Count the blocks that both sides have; the block is the unit of replication, whatever is crossed within it."""
    if contrast.arms is None:
        return len(grid.blocks)
    reference, other = contrast.arms
    return len(set(grid.arms[reference].blocks) & set(grid.arms[other].blocks))


def _warnings(contrasts: Sequence[ContrastPlan], grid: GridSpec) -> list[str]:
    if not contrasts:
        return ["nothing is compared: one arm, and no two cells that differ in one factor only"]
    family = [contrast for contrast in contrasts if contrast.in_family]
    if not family:
        return []
    if min(contrast.smallest_adjusted_p for contrast in family) < LEVEL:
        return _of_controls(grid)
    best = min(family, key=lambda contrast: contrast.smallest_adjusted_p)
    tests = f"{len(family)} contrast{'s' if len(family) > 1 else ''}"
    return [
        f"no difference can be shown: with {best.pairs} block{'s' if best.pairs != 1 else ''} the smallest p a "
        f"sign-flip test can give is {best.smallest_p:.3g}, and {best.smallest_adjusted_p:.3g} after Holm's adjustment "
        f"for {tests}; below {LEVEL} needs {blocks_needed(len(family))} blocks"
    ]


def _of_controls(grid: GridSpec) -> list[str]:
    """Say so if no gap can be shown to be more than what one ulp causes; without such a control the report says it."""
    controls = {name: len(arm.blocks) for name, arm in grid.arms.items() if arm.numerics.perturb == "one-ulp"}
    name = max(controls, key=controls.__getitem__, default="")
    if not name or controls[name] >= blocks_needed(1):
        return []
    return [
        f"no gap can be called SYSTEMATIC: the one-ulp control {name} has {controls[name]} "
        f"block{'s' if controls[name] != 1 else ''}, below {LEVEL} needs {blocks_needed(1)}"
    ]


def _of_settings(grid: GridSpec) -> list[str]:
    """Say so if an arm has a number of its own, a learning rate for instance: its audit would call it a bug."""
    found = [own_settings_words(contrast, grid, numbers=True) for contrast in grid.contrasts]
    return [words for words in dict.fromkeys(found) if words]


def refuse_oversubscription(grid: GridSpec, cores: int, where: Callable[[Loc], str]) -> None:
    """Refuse arms that ask for more threads than there are cores.

    Raises:
        BadInput: one problem an arm.
    """
    problems = [
        Problem(
            where(("arms", name, "threads")),
            f"{arm.numerics.threads} threads, and a trial can use {cores} core{'s' if cores != 1 else ''} here",
            f"at most {cores}",
            advice="lower `threads`, or launch on a machine with more cores: threads that share a core would be "
            "measured as a slow arm",
        )
        for name, arm in grid.arms.items()
        if arm.numerics.threads > cores and arm.repeat is None and not _elsewhere(arm)
    ]
    if problems:
        raise BadInput(*problems)


def _elsewhere(arm: Arm) -> bool:
    """Say whether an arm asks for a machine by a tag: its threads are then no matter of the planning machine's cores.

    Its ``CPU``, a core a thread unless the grid says otherwise, is checked at launch against nodes that offer the tag.
    """
    return bool(arm.resources.keys() - {"CPU", "GPU"})
