"""A grid file, read, checked and completed: ``load_grid``. Every problem in the file is reported at once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from ablate.design.arms import read_arms
from ablate.design.comparable import only_comparable, uncomparable
from ablate.design.contrasts import default_contrasts, read_contrasts
from ablate.design.factor_tree import SubGrid, combinations_at_most
from ablate.design.factors import arm_names, read_cells, read_factors
from ablate.design.grid_file import ALLOWED, ArtifactsFile, AuditFile, GridFile, at_batches
from ablate.design.probes import read_probes
from ablate.design.spec import Arm, Contrast, GridSpec, Margin, Outcome
from ablate.design.trial_spec import ArtifactPlan, AuditPlan, CheckpointPlan, GuardPlan, Numerics, SketchPlan
from ablate.design.validation import validate
from ablate.design.yaml_source import YamlSource, read_yaml
from ablate.errors import BadInput, Problem

__all__ = ["Arm", "Contrast", "GridSpec", "GuardPlan", "Margin", "Numerics", "Outcome", "load_grid"]


MOST_TRIALS = 100_000
"""A larger study is refused when it is read: planning it takes minutes, and placing it a day of the launcher alone."""


def load_grid(path: str | Path) -> GridSpec:
    """Read a grid file.

    Args:
        path: the file.

    Returns:
        The study, fully resolved.

    Raises:
        BadInput: with one problem for each thing that is wrong, in the order of the file's lines.
    """
    source = read_yaml(path)
    file, problems = validate(source)
    problems = [*source.problems, *problems]
    spec = None
    if file is not None:
        spec, further = _complete(file, source)
        problems += further
    if problems or spec is None:
        raise BadInput(*sorted(problems, key=_line))
    return spec


def _complete(file: GridFile, source: YamlSource) -> tuple[GridSpec, list[Problem]]:
    """Fill in every default and check what refers to something else in the file."""
    names = arm_names(source.data.get("arms"))
    factors, problems = read_factors(file.factors, names, source)
    problems += _too_many(factors.tree, len(names), file.blocks, source)
    cells, wrong = (None, []) if problems or source.problems else read_cells(factors, names, source)
    problems += wrong

    blocks, wrong = _blocks(file.blocks, source)
    problems += wrong
    arms, wrong = read_arms(file.arms, names, factors.names, blocks, source)
    problems += wrong
    outcome, wrong = _outcome(file, source)
    problems += wrong
    if "contrasts" not in file.model_fields_set:
        asked = default_contrasts(arms, factors.levels, factors.together)
        places: dict[int, Contrast] = {}
    else:
        places, wrong = read_contrasts(file.contrasts, names, factors.names, factors.levels, factors.together, source)
        asked = tuple(places.values())
        problems += wrong
    margin, wrong = _margin(file.margin, source)
    problems += wrong
    artifacts, wrong = _artifacts(file.artifacts, file.batches, source)
    problems += wrong
    audit, wrong = _audit(file.audit, file.batches, source)
    problems += wrong
    probes, wrong = read_probes(file.probes, file.batches, source)
    problems += wrong
    spec = GridSpec(
        study=file.study,
        question=file.question,
        trainable=file.trainable,
        settings=file.settings,
        factors=factors.levels,
        cells=cells,
        arms=arms,
        blocks=tuple(blocks),
        batches=file.batches,
        outcome=outcome,
        contrasts=asked,
        margin=margin,
        guard=GuardPlan(first=file.guard.first, every=file.guard.every),
        audit=audit,
        artifacts=artifacts,
        sketches=SketchPlan(every=file.sketches.every),
        probes=probes,
        checkpoint=CheckpointPlan(batches=file.checkpoint.batches, minutes=file.checkpoint.minutes),
        stall_minutes=file.stall_minutes,
    )
    if problems or source.problems or cells is None:
        return spec, problems
    if places:
        return spec, uncomparable(spec, places, source)
    contrasts, problems = only_comparable(spec, source)
    return spec.model_copy(update={"contrasts": contrasts}), problems


def _too_many(factors: SubGrid, arms: int, blocks: int | Sequence[int], source: YamlSource) -> list[Problem]:
    """Refuse what would be listed for minutes, before it is."""
    each, count = combinations_at_most(factors), blocks if isinstance(blocks, int) else len(blocks)
    if (trials := each * arms * count) <= MOST_TRIALS:
        return []
    parts = f"{each:,} combinations of levels x {arms:,} arms x {count:,} blocks"
    where = source.where(("factors",) if each > 1 else ("blocks",))
    advice = "split the study, or cross fewer factors: `zip` and `union` say which levels belong together"
    return [Problem(where, f"{trials:,} trials ({parts}, exclusions apart)", f"at most {MOST_TRIALS:,}", "", advice)]


def _blocks(written: int | Sequence[int], source: YamlSource) -> tuple[Sequence[int], list[Problem]]:
    if isinstance(written, int):
        return range(written), []
    seen: set[int] = set()
    problems = []
    for position, block in enumerate(written):
        if block in seen:
            problems.append(Problem(source.where(("blocks", position)), f"the block {block} stands there twice"))
        seen.add(block)
    return tuple(written), problems


def _outcome(file: GridFile, source: YamlSource) -> tuple[Outcome, list[Problem]]:
    written = file.outcome
    last = written.last if written.last is not None else min(50, file.batches)
    outcome = Outcome(metric=written.metric, last=last, evaluate=written.evaluate)
    beside = sorted(written.model_fields_set & {"metric", "last"})
    if written.evaluate is not None and beside:
        where = source.where(("outcome", "evaluate"))
        found = f"evaluate beside {' and '.join(beside)}"
        return outcome, [Problem(where, found, "a held-out value or a metric's mean, not both")]
    if last > file.batches:
        where = source.where(("outcome", "last"))
        return outcome, [Problem(where, f"found {last}", f"at most {file.batches}, the number of batches")]
    return outcome, []


def _audit(written: AuditFile, batches: int, source: YamlSource) -> tuple[AuditPlan, list[Problem]]:
    problems = _beyond_the_end("audit", written.at, batches, source)
    return AuditPlan(first=written.first, at=tuple(sorted(at_batches(written.at, batches - 1)))), problems


def _beyond_the_end(
    key: str, at: Sequence[int | Literal["last"]] | None, batches: int, source: YamlSource
) -> list[Problem]:
    return [
        Problem(source.where((key, "at", position)), f"found {batch}", f"0 to {batches - 1}, or last")
        for position, batch in enumerate(at or ())
        if batch != "last" and batch >= batches
    ]


def _artifacts(written: ArtifactsFile | None, batches: int, source: YamlSource) -> tuple[ArtifactPlan, list[Problem]]:
    if written is None:
        return ArtifactPlan(), []
    if written.at is None and written.every is None:
        return ArtifactPlan(), [Problem(source.where(("artifacts",)), "says no batch", ALLOWED["artifacts",])]
    problems = _beyond_the_end("artifacts", written.at, batches, source)
    at = tuple(sorted(at_batches(written.at, batches - 1)))
    return ArtifactPlan(at=at, every=written.every or 0), problems


def _margin(written: float | str | None, source: YamlSource) -> tuple[Margin | None, list[Problem]]:
    if written is None:
        return None, []
    if not isinstance(written, str):
        return Margin(value=written), []
    percent = float(written.removesuffix("%"))
    if percent > 0:
        return Margin(value=percent, unit="percent"), []
    return None, [Problem(source.where(("margin",)), f'found "{written}"', "more than 0%")]


def _line(problem: Problem) -> int:
    part = problem.where.rsplit(": ", 1)[0].rsplit(":", 1)[-1]
    return int(part) if part.isdigit() else 0
