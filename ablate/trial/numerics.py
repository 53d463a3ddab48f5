"""Applies an arm's numerics to this process and reads back what took effect; asked and found must agree."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import torch

from ablate.design.trial_spec import Numerics
from ablate.errors import Problem
from ablate.trial import cuda
from ablate.trial.effect import ArmNotInEffect
from ablate.trial.environment import arm_environment

__all__ = ["DTYPES", "ArmNotInEffect", "InEffect", "apply", "columns", "verify"]

DTYPES = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.bfloat16}


@dataclass(frozen=True)
class InEffect:
    """What torch says of itself; the names are columns of ``trials``. ``on_cuda`` is None on a CPU arm."""

    threads_set: int
    capability: str
    onednn: bool
    deterministic: bool
    device: str
    on_cuda: cuda.OnCuda | None = None


def apply(numerics: Numerics, gpus: Sequence[str] = ()) -> InEffect:
    """Set threads, oneDNN, determinism and CUDA's flags before the first operation, then check them.

    The environment (``ablate.trial.environment``) must have been in place before torch was imported.

    Args:
        numerics: the arm.
        gpus: the GPUs this trial was given, as entries of ``CUDA_VISIBLE_DEVICES``; a CPU arm gets none.

    Raises:
        ArmNotInEffect: naming what was asked and what was found.
    """
    torch.set_num_threads(numerics.threads)
    torch.backends.mkldnn.enabled = numerics.onednn  # type: ignore[assignment]
    torch.use_deterministic_algorithms(numerics.deterministic)
    on_cuda = None
    if numerics.device == "cuda":
        cuda.set_flags(numerics)
        cuda.start(gpus)
        on_cuda = cuda.in_effect()
    found = InEffect(
        threads_set=torch.get_num_threads(),
        capability=torch.backends.cpu.get_cpu_capability(),
        onednn=bool(torch._C._get_mkldnn_enabled()),
        deterministic=torch.are_deterministic_algorithms_enabled(),
        device=numerics.device,
        on_cuda=on_cuda,
    )
    verify(numerics, found)
    return found


def verify(numerics: Numerics, found: InEffect) -> None:
    """Compare what was asked with what was read back.

    Raises:
        ArmNotInEffect: with every disagreement.
    """
    pairs: list[tuple[str, object, object]] = [
        ("threads", numerics.threads, found.threads_set),
        ("onednn", numerics.onednn, found.onednn),
        ("deterministic", numerics.deterministic, found.deterministic),
    ]
    if found.on_cuda:
        pairs += cuda.pairs(numerics, found.on_cuda)
    if "ATEN_CPU_CAPABILITY" in numerics.env:
        asked = numerics.env["ATEN_CPU_CAPABILITY"]
        pairs.append(("env.ATEN_CPU_CAPABILITY", asked, found.capability.lower()))
    pairs += [(f"env.{key}", value, os.environ.get(key, "unset")) for key, value in numerics.env.items()]
    problems = [
        Problem(
            where=key,
            found=f"asked for {asked}, but this process has {actual}",
            advice="The machine or the torch build cannot do it, or something set it after the start.",
        )
        for key, asked, actual in pairs
        if asked != actual
    ]
    if problems:
        raise ArmNotInEffect(*problems)


def columns(numerics: Numerics, found: InEffect) -> dict[str, object]:
    """Return the columns of ``trials`` that say how the trial computed."""
    machine = asdict(found)
    return {
        **(machine.pop("on_cuda") or {}),
        **machine,
        "precision": numerics.precision,
        "workers": numerics.workers,
        "env": json.dumps(arm_environment(os.environ)),
    }
