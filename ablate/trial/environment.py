"""The environment a trial's process starts with: the arm's own variables, nothing numeric left over from the shell."""

from __future__ import annotations

from collections.abc import Mapping

from ablate.design.trial_spec import Numerics

NUMERIC_PREFIXES = (
    "OMP_",
    "GOMP_",
    "KMP_",
    "MKL_",
    "ONEDNN_",
    "DNNL_",
    "ATEN_",
    "CUBLAS_",
    "CUDA_DEVICE_ORDER",
    "CUDA_LAUNCH_BLOCKING",
    "CUDNN_",
    "NCCL_ALGO",
    "NCCL_PROTO",
    "NVIDIA_TF32",
    "TORCH_ALLOW_TF32",
    "TORCH_CUDNN_",
    "TORCH_COMPILE",
    "TORCHDYNAMO_",
    "TORCHINDUCTOR_",
)
"""Variables that choose kernels, instruction sets or threads. Inherited ones would differ between the shells two
studies were started from (`ray up` alone exports OMP_NUM_THREADS=1), so only the arm's own are kept."""


def process_environment(numerics: Numerics, inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the whole environment for a process that runs trials of this arm.

    Args:
        numerics: the arm.
        inherited: the launching process's environment.

    Returns:
        ``inherited`` without numeric variables, plus the arm's ``env`` and its thread count. NumPy's own OpenBLAS is
        held to one thread, so that it starts no pool before the fork and trainables' data do not depend on it. No GPU
        is visible in any: one server forks the trials of every GPU, and each names its own (``ablate.trial.cuda``).
    """
    kept = {key: value for key, value in inherited.items() if not key.startswith(NUMERIC_PREFIXES)}
    threads = str(numerics.threads)
    cuda = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"} if numerics.device == "cuda" else {}
    if numerics.device == "cuda" and numerics.deterministic:
        cuda["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # without it torch refuses deterministic matrix products
    return {
        **kept,
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONHASHSEED": "0",
        **cuda,
        **numerics.env,
    }


def arm_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the part of an environment that bears on arithmetic, for the record."""
    names = ("CUDA_VISIBLE_DEVICES", "PYTHONHASHSEED")
    return {
        key: value
        for key, value in sorted(environment.items())
        if key.startswith((*NUMERIC_PREFIXES, "OPENBLAS_")) or key in names
    }
