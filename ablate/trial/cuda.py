"""Brings a trial's process onto its GPU as the arm asks, and reads back what took effect.

Flags first, then the first CUDA call: which GPU is visible is settled by an environment variable that CUDA reads once,
so the fork server leaves CUDA untouched and every trial names its own GPU here.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ablate.design.trial_spec import Numerics
from ablate.errors import Problem
from ablate.trial.effect import ArmNotInEffect
from ablate.trial.nvml import driver_version

TF32_FROM = (8, 0)
"""The first compute capability with TF32 (Ampere)."""


@dataclass(frozen=True)
class OnCuda:
    """What torch says of its GPU; the names are columns of ``trials``.

    Attributes:
        gpu: name of the GPU.
        gpu_driver: version of the driver.
        cuda: version of CUDA that torch was built with.
        cudnn: cuDNN is used.
        cudnn_version: its version; empty if torch has none.
        cudnn_benchmark: it times its algorithms.
        tf32_matmul: float32 matrix products use TF32: the flag is set and the GPU has it.
        tf32_conv: the same for cuDNN's convolutions and recurrent layers.
    """

    gpu: str
    gpu_driver: str
    cuda: str
    cudnn: bool
    cudnn_version: str
    cudnn_benchmark: bool
    tf32_matmul: bool
    tf32_conv: bool


def set_flags(numerics: Numerics) -> None:
    """Set what may be set before CUDA starts; nothing here touches the driver."""
    torch.backends.cudnn.enabled = numerics.cudnn
    torch.backends.cudnn.benchmark = numerics.cudnn_benchmark
    torch.backends.cuda.matmul.allow_tf32 = numerics.tf32
    torch.backends.cudnn.allow_tf32 = numerics.tf32


def start(gpus: Sequence[str]) -> None:
    """Make ``gpus`` the only visible ones, start CUDA and run one operation.

    Args:
        gpus: what the launcher assigned, as entries of ``CUDA_VISIBLE_DEVICES``.

    Raises:
        ArmNotInEffect: none was assigned, or torch cannot compute on it.
    """
    if not gpus:
        raise ArmNotInEffect(
            Problem(
                "device", "asked for cuda, but the launcher assigned no GPU", advice="Ask for `resources: {GPU: 1}`."
            )
        )
    os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
    try:
        torch.cuda.init()  # type: ignore[no-untyped-call]
        (torch.ones(2, device="cuda") + 1).sum().item()  # a torch that was built for other GPUs fails here, not later
    except (RuntimeError, AssertionError) as error:  # AssertionError: torch was built without CUDA
        words = str(error).strip().partition("\n")[0]
        raise ArmNotInEffect(
            Problem(
                "device",
                f"asked for cuda, but torch {torch.__version__} cannot compute on GPU {', '.join(gpus)}: {words}",
                advice="Check `nvidia-smi` and that this torch is built for this GPU and driver.",
            )
        ) from error


def in_effect() -> OnCuda:
    """Read back how CUDA computes in this process."""
    has_tf32 = torch.cuda.get_device_capability() >= TF32_FROM
    version = torch.backends.cudnn.version()  # type: ignore[no-untyped-call]
    return OnCuda(
        gpu=torch.cuda.get_device_name(),
        gpu_driver=driver_version(),
        cuda=str(torch.version.cuda),
        cudnn=torch.backends.cudnn.enabled and version is not None,
        cudnn_version="" if version is None else str(version),
        cudnn_benchmark=torch.backends.cudnn.benchmark,
        tf32_matmul=has_tf32 and torch.backends.cuda.matmul.allow_tf32,
        tf32_conv=has_tf32 and torch.backends.cudnn.allow_tf32,
    )


def pairs(numerics: Numerics, found: OnCuda) -> list[tuple[str, object, object]]:
    """Return what was asked beside what was found."""
    convolutions = [("tf32 (convolutions)", numerics.tf32, found.tf32_conv)] if numerics.cudnn else []
    return [
        ("cudnn", numerics.cudnn, found.cudnn),
        ("cudnn_benchmark", numerics.cudnn_benchmark, found.cudnn_benchmark),
        ("tf32 (matrix products)", numerics.tf32, found.tf32_matmul),
        *convolutions,
    ]


def usage_columns() -> dict[str, object]:
    """Return the most GPU memory this process held in tensors; empty if it never started CUDA."""
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return {}
    return {"gpu_peak_memory_bytes": torch.cuda.max_memory_allocated()}
