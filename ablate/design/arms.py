"""From the arms as written to the arms as they run: repeats resolved, resources and blocks filled in."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ablate.design.device import device_problems, resources_of
from ablate.design.environment import environment_problem
from ablate.design.grid_file import ArmFile
from ablate.design.spec import Arm
from ablate.design.trial_spec import Numerics
from ablate.design.workers import worker_problems
from ablate.design.yaml_source import YamlSource
from ablate.errors import Problem, nearest

_BESIDE_REPEAT = {"repeat", "perturb", "blocks"}


def read_arms(
    written: Mapping[str, ArmFile],
    names: Collection[str],
    factors: Collection[str],
    blocks: Sequence[int],
    source: YamlSource,
) -> tuple[dict[str, Arm], list[Problem]]:
    """Resolve arms.

    Args:
        written: the arms whose shape is right.
        names: the names of all arms in the file.
        factors: the names of all factors in the file.
        blocks: the study's blocks.
        source: the file, for line numbers.

    Returns:
        The arms that could be resolved, in file order, and what is wrong with the others.
    """
    problems: list[Problem] = []
    arms: dict[str, Arm] = {}
    for name, arm in written.items():
        own = [*_environment_problems(name, arm, source), *_setting_problems(name, arm, factors, source)]
        own += [*device_problems(name, arm, source), *worker_problems(name, arm, source)]
        own += [*_control_problems(name, arm, written, names, source), *_machine_problems(name, arm, source)]
        problems += own
        original = written.get(arm.repeat, arm) if arm.repeat is not None else arm
        if arm.blocks is not None and arm.blocks > len(blocks):
            where = source.where(("arms", name, "blocks"))
            allowed = f"at most {len(blocks)}, the study's number of blocks"
            problems.append(Problem(where, f"found {arm.blocks}", allowed))
        arms[name] = _resolve(arm, original, blocks)
    whole = {name: arms[name] for name, arm in written.items() if _is_whole(name, arm, source)}
    return arms, problems + _twins(whole, source)


def _resolve(arm: ArmFile, original: ArmFile, blocks: Sequence[int]) -> Arm:
    numerics = Numerics(
        env=original.env,
        threads=original.threads,
        onednn=original.onednn,
        precision=original.precision,
        deterministic=original.deterministic,
        perturb=arm.perturb,
        device=original.device,
        cudnn=original.cudnn,
        cudnn_benchmark=original.cudnn_benchmark,
        tf32=original.tf32,
        compile=original.compile,
        memory_format=original.memory_format,
        gradient_noise=original.gradient_noise,
        workers=original.workers,
    )
    return Arm(
        numerics=numerics,
        settings=original.settings,
        resources=dict(resources_of(original)),
        blocks=tuple(blocks[: arm.blocks]),
        repeat=arm.repeat,
        kind=original.kind,
        machine=original.machine,
    )


def _environment_problems(name: str, arm: ArmFile, source: YamlSource) -> list[Problem]:
    found = (
        environment_problem(variable, value, source.where(("arms", name, "env", variable)))
        for variable, value in arm.env.items()
    )
    return [problem for problem in found if problem is not None]


def _setting_problems(name: str, arm: ArmFile, factors: Collection[str], source: YamlSource) -> list[Problem]:
    return [
        Problem(
            source.where(("arms", name, "settings", setting)),
            f"{setting} is a factor, so its levels and this arm would both decide it",
            advice="remove it here, or from `factors`",
        )
        for setting in arm.settings
        if setting in factors
    ]


def _control_problems(
    name: str, arm: ArmFile, written: Mapping[str, ArmFile], names: Collection[str], source: YamlSource
) -> list[Problem]:
    if arm.repeat is None:
        problems = []
        if arm.perturb is not None:
            where = source.where(("arms", name, "perturb"))
            advice = "write `repeat: ARM` beside it, with the arm that this one is a control of"
            problems.append(Problem(where, "`perturb` without `repeat`", advice=advice))
        if arm.blocks is not None:
            where = source.where(("arms", name, "blocks"))
            advice = "remove it; only a control, an arm with `repeat`, may train on fewer blocks"
            problems.append(Problem(where, "an arm under comparison trains on all blocks", advice=advice))
        return problems
    where = source.where(("arms", name, "repeat"))
    others = [other for other in names if other != name]
    problems = [
        Problem(
            source.where(("arms", name, key)),
            f"{key} beside `repeat`, which copies it from {arm.repeat}",
            "perturb, blocks",
            advice="remove it, or remove `repeat`",
        )
        for key in ArmFile.model_fields
        if key in arm.model_fields_set - _BESIDE_REPEAT
    ]
    if arm.repeat == name:
        problems.append(Problem(where, "an arm cannot repeat itself", ", ".join(others)))
    elif arm.repeat not in names:
        found = f'no arm is called "{arm.repeat}"'
        problems.append(Problem(where, found, ", ".join(others), nearest(arm.repeat, others)))
    elif arm.repeat in written and written[arm.repeat].repeat is not None:
        advice = f"write `repeat: {written[arm.repeat].repeat}`"
        problems.append(Problem(where, f"{arm.repeat} is itself a repeat", advice=advice))
    return problems


def _machine_problems(name: str, arm: ArmFile, source: YamlSource) -> list[Problem]:
    """Find a kind without its machine, or a machine without its kind: neither can be compared alone."""
    given, lacking = ("kind", "machine") if arm.machine is None else ("machine", "kind")
    written = [("arms", name, key) in source.lines for key in (given, lacking)]
    if arm.repeat is not None or written != [True, False]:
        return []
    advice = f"write `{lacking}: NAME` beside it: kinds are compared over their machines"
    return [Problem(source.where(("arms", name, given)), f"`{given}` without `{lacking}`", advice=advice)]


def _is_whole(name: str, arm: ArmFile, source: YamlSource) -> bool:
    """Say whether nothing of the arm was taken out because it was wrong, so that it can be compared with others."""
    in_file = source.data.get("arms", {"default": {}})
    return isinstance(in_file, dict) and arm.model_dump(exclude_unset=True) == in_file.get(name)


def _twins(arms: Mapping[str, Arm], source: YamlSource) -> list[Problem]:
    """Find arms that differ in nothing: undeclared A/A arms, which would enter the family of tests."""
    problems = []
    compared = [(name, arm) for name, arm in arms.items() if not arm.control]
    for position, (name, arm) in enumerate(compared):
        twin = next((other for other, candidate in compared[:position] if candidate == arm), None)
        if twin is not None:
            advice = f"if it is a control, write `repeat: {twin}`"
            problems.append(Problem(source.where(("arms", name)), f"differs in nothing from {twin}", advice=advice))
    return problems
