"""What an arm may ask of its device: CUDA options belong to CUDA arms, and an option without effect is refused."""

from __future__ import annotations

from collections.abc import Mapping

from ablate.design.environment import OWNED
from ablate.design.grid_file import ArmFile
from ablate.design.yaml_source import YamlSource
from ablate.errors import Problem

CUDA_OPTIONS = ("cudnn", "cudnn_benchmark", "tf32")
"""Options of an arm that mean nothing on a CPU."""

CUDA_VARIABLES = ("CUBLAS_", "CUDA_", "CUDNN_", "NVIDIA_", "TORCH_CUDNN_")
"""Beginnings of the names of environment variables that mean nothing on a CPU."""


def device_problems(name: str, arm: ArmFile, source: YamlSource) -> list[Problem]:
    """Return what is wrong with an arm's device options, one problem each."""
    if arm.repeat is not None:
        return []  # whatever stands beside `repeat` is refused there
    problems = _cpu_problems(name, arm, source) if arm.device == "cpu" else _cuda_problems(name, arm, source)
    gpus = arm.resources.get("GPU", 0.0)
    if gpus > 1 and gpus % 1:
        where = source.where(("arms", name, "resources", "GPU"))
        problems.append(Problem(where, f"found {gpus:g}", "a share of one GPU, at most 1, or a whole number of GPUs"))
    return problems


def resources_of(arm: ArmFile) -> Mapping[str, float]:
    """Return what one trial of an arm needs to be placed: a core a thread, on CUDA one GPU, and what the file says.

    Of an arm with several workers it is what they need together.
    """
    workers = float(arm.workers)
    default = {"CPU": arm.threads * workers} | ({"GPU": workers} if arm.device == "cuda" else {})
    return {**default, **arm.resources}


def _cpu_problems(name: str, arm: ArmFile, source: YamlSource) -> list[Problem]:
    advice = "write `device: cuda` beside it, or remove it"
    problems = [
        Problem(source.where(("arms", name, option)), f"{option} on a CPU arm, which uses no GPU", advice=advice)
        for option in CUDA_OPTIONS
        if option in arm.model_fields_set
    ]
    problems += [
        Problem(source.where(("arms", name, "env", key)), f"{key} on a CPU arm, which uses no GPU", advice=advice)
        for key in arm.env
        if key.startswith(CUDA_VARIABLES) and key not in OWNED
    ]
    if "GPU" in arm.resources:
        where = source.where(("arms", name, "resources", "GPU"))
        problems.append(Problem(where, "a CPU arm would hold a GPU and compute on the CPU", advice=advice))
    return problems


def _cuda_problems(name: str, arm: ArmFile, source: YamlSource) -> list[Problem]:
    problems = []
    if arm.cudnn_benchmark and not arm.cudnn:
        where = source.where(("arms", name, "cudnn_benchmark"))
        problems.append(Problem(where, "cudnn_benchmark without cuDNN changes nothing", advice="write `cudnn: true`"))
    if arm.tf32 and arm.precision != "float32":
        where = source.where(("arms", name, "tf32"))
        found = f"TF32 rounds the inputs of float32 products, and this arm computes in {arm.precision}"
        problems.append(Problem(where, found, advice="remove it, or write `precision: float32`"))
    return problems
