"""Which environment variables an arm may set: not those that another option or the tool itself owns."""

from __future__ import annotations

from ablate.errors import Problem, nearest

OWNED = {
    "OMP_NUM_THREADS": "use the arm's `threads`",
    "MKL_NUM_THREADS": "use the arm's `threads`",
    "OPENBLAS_NUM_THREADS": "use the arm's `threads`",
    "CUDA_VISIBLE_DEVICES": "leave it out: the tool sets it from the arm's `resources`",
    "CUDA_DEVICE_ORDER": "leave it out: the tool numbers GPUs as nvidia-smi does",
    "NVIDIA_TF32_OVERRIDE": "use the arm's `tf32`",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": "use the arm's `tf32`",
    "TORCH_COMPILE_DISABLE": "use the arm's `compile`",
    "TORCHDYNAMO_DISABLE": "use the arm's `compile`",
}
"""Variables that are refused in ``env``, with what to do instead."""

CAPABILITIES = ("default", "avx2", "avx512", "vsx", "zvector", "sve256")
"""Values of ATEN_CPU_CAPABILITY that some build of torch knows: x86 has the first three, Power ``vsx``, s390x
``zvector`` and ARM ``sve256`` beside ``default``. torch ignores any other with no more than a warning."""


def environment_problem(name: str, value: str, where: str) -> Problem | None:
    """Return what is wrong with an arm's environment variable, if anything."""
    if name in OWNED:
        return Problem(where, f"{name} cannot be set here", advice=OWNED[name])
    if "\0" in value:
        return Problem(where, "the value contains a zero byte, which no environment can hold")
    if name == "ATEN_CPU_CAPABILITY" and value not in CAPABILITIES:
        found = f'torch does not know the capability "{value}" and would silently use its own choice'
        return Problem(where, found, ", ".join(CAPABILITIES), nearest(value, CAPABILITIES))
    return None
