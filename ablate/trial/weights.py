"""Initial weights: made once per block by one process at one thread, stored under their hash, loaded by every arm.

torch's initialisers are not bit-equal across instruction sets and thread counts (randn, Linear, orthogonal_ and
trunc_normal_ differ between ATEN_CPU_CAPABILITY default and avx2), so an arm may not draw its own.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import torch
from safetensors.torch import load_file, save
from torch import nn

from ablate.design.seeds import stream_key
from ablate.errors import AblateError, Problem
from ablate.trial.fingerprint import state


class WeightsMismatch(AblateError):
    """The model built in a trial is not the model whose initial weights were stored."""


def seed_global_generators(study: str, block: int) -> None:
    """Seed torch's global generator for this block, for ``build()`` and for draws that bypass ``ctx.draw``."""
    torch.manual_seed(stream_key(study, block, "torch") % 2**63)


def store(model: nn.Module, folder: Path) -> str:
    """Write parameters and buffers as ``<sha256>.safetensors`` and return the hash; equal weights share a file."""
    content = save({name: tensor.detach().contiguous().clone() for name, tensor in state(model).items()})
    digest = hashlib.sha256(content).hexdigest()
    path = folder / f"{digest}.safetensors"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        aside = path.with_suffix(f".tmp{os.getpid()}")
        aside.write_bytes(content)
        aside.replace(path)
    return digest


def restore(model: nn.Module, path: Path) -> None:
    """Copy stored weights and buffers into ``model``, bit for bit.

    Raises:
        WeightsMismatch: if names, shapes or types differ, or the file's contents are not what its name says.
    """
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if digest != path.stem:
        raise WeightsMismatch(
            Problem(
                str(path),
                f"the file's sha256 is {digest[:12]}..., not the one in its name",
                "",
                "",
                "Delete it and launch again.",
            )
        )
    stored = load_file(path)
    own = state(model)
    said = {name: (tuple(tensor.shape), str(tensor.dtype)) for name, tensor in stored.items()}
    found = {name: (tuple(tensor.shape), str(tensor.dtype)) for name, tensor in own.items()}
    if said != found:
        names = sorted(name for name in said.keys() | found.keys() if said.get(name) != found.get(name))
        raise WeightsMismatch(
            Problem(
                where="initial weights",
                found=f"build() made {found.get(names[0], 'nothing')} for {names[0]!r}, "
                f"stored is {said.get(names[0], 'nothing')} ({len(names)} names differ)",
                advice="build() must depend on the settings alone; if its code changed, start a new study.",
            )
        )
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(stored[name])
