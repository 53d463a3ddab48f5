"""Applies an arm's numerics to this process and reads back what took effect; asked and found must agree."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass

import torch

from ablate.design.trial_spec import Numerics
from ablate.errors import AblateError, Problem
from ablate.trial.environment import arm_environment

DTYPES = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.bfloat16}


class ArmNotInEffect(AblateError):
    """The process does not compute as the arm asks; running on would record a false comparison."""


@dataclass(frozen=True)
class InEffect:
    """What torch says of itself; the names are columns of ``trials``."""

    threads_set: int
    capability: str
    onednn: bool
    deterministic: bool
    device: str


def apply(numerics: Numerics) -> InEffect:
    """Set threads, oneDNN and determinism before the first operation, then check them.

    The environment (``ablate.trial.environment``) must have been in place before torch was imported.

    Raises:
        ArmNotInEffect: naming what was asked and what was found.
    """
    torch.set_num_threads(numerics.threads)
    torch.backends.mkldnn.enabled = numerics.onednn  # type: ignore[assignment]
    torch.use_deterministic_algorithms(numerics.deterministic)
    found = InEffect(
        threads_set=torch.get_num_threads(),
        capability=torch.backends.cpu.get_cpu_capability(),
        onednn=bool(torch._C._get_mkldnn_enabled()),
        deterministic=torch.are_deterministic_algorithms_enabled(),
        device="cpu",
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
    return {
        **asdict(found),
        "precision": numerics.precision,
        "env": json.dumps(arm_environment(os.environ)),
    }
