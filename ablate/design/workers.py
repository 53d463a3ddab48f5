"""What an arm with several workers may ask: what cannot work for processes that share a batch is refused in words."""

from __future__ import annotations

from ablate.design.grid_file import ArmFile
from ablate.design.yaml_source import YamlSource
from ablate.errors import Problem

MOST = 1024
"""More than any batch of a study has rows; a slip of the keyboard must not start so many processes."""


def worker_problems(name: str, arm: ArmFile, source: YamlSource) -> list[Problem]:
    """Return what is wrong with an arm's workers, one problem each."""
    if arm.repeat is not None or arm.workers == 1:
        return []  # whatever stands beside `repeat` is refused there
    where = source.where(("arms", name, "workers"))
    problems = []
    if arm.workers > MOST:
        problems.append(Problem(where, f"found {arm.workers}", f"at most {MOST}"))
    if arm.compile:
        found = "workers beside `compile`: what is compiled is the loss of a whole batch, and each has its share of one"
        problems.append(Problem(where, found, advice="remove one of them"))
    gpus = arm.resources.get("GPU", float(arm.workers))
    if arm.device == "cuda" and gpus != arm.workers:
        found = f"{arm.workers} workers and {gpus:g} GPUs; NCCL lets no two workers share a GPU"
        advice = f"write `GPU: {arm.workers}`, or leave it out"
        problems.append(Problem(source.where(("arms", name, "resources", "GPU")), found, advice=advice))
    return problems
