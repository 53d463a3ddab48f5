"""Checkpoints of long trials: everything the next attempt needs to go on bit for bit.

A checkpoint holds the loop's state (model, optimisers, carries, or what a function trainable hands over), where every
random stream stands, the running hash of the data order, and the global generators. The position in the data is not
stored: ``batches()`` is a generator, so a resume draws its first batches again without training on them.
"""

from __future__ import annotations

import io
import random
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ablate.record.paths import StorePaths
from ablate.trial.draw import Draw
from ablate.trial.tensor_file import write_tensors


@dataclass(frozen=True)
class Checkpoint:
    """What an attempt goes on from.

    Attributes:
        attempt: the attempt that made it.
        batches: how many batches were recorded when it was made.
        code: hash of the trainable's source, with torch's version; another one makes it useless.
        order: the running hash of the data order.
        streams: name -> state of a random stream.
        generators: states of the global generators.
        state: the loop's own.
        declared: name -> state of a stream that the arm's declared perturbations draw from.
        machines: (machine, batches): which computed the batches up to which number, in order.
    """

    attempt: int
    batches: int
    code: str
    order: int
    streams: Mapping[str, Mapping[str, Any]]
    generators: Mapping[str, Any]
    state: Mapping[str, Any]
    declared: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    machines: Sequence[tuple[str, int]] = ()


def save(path: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint aside and rename it into place.

    Raises:
        StoreError: if the disk is full or fails; the one before is then still there.
    """
    write_tensors(path, vars(checkpoint))


def load(path: Path, code: str) -> Checkpoint | None:
    """Read a checkpoint; None if there is none, or if it was made by other code or another torch."""
    if not path.exists():
        return None
    checkpoint = Checkpoint(**torch.load(path, weights_only=True))
    if checkpoint.code != code:
        print(f"the checkpoint at batch {checkpoint.batches} was made by other code: beginning again", flush=True)
        return None
    return checkpoint


def packed(checkpoint: Checkpoint) -> bytes:
    """Return a checkpoint as bytes, to be handed to another worker."""
    held = io.BytesIO()
    torch.save(vars(checkpoint), held)
    return held.getvalue()


def unpacked(content: bytes) -> Checkpoint:
    """Return the checkpoint in bytes: tensors and plain values, no code."""
    return Checkpoint(**torch.load(io.BytesIO(content), weights_only=True))


def discard(paths: StorePaths, trial_id: str) -> None:
    """Delete a trial's checkpoint, if it has one: the trial is complete."""
    shutil.rmtree(paths.checkpoint(trial_id).parent, ignore_errors=True)


def global_generators() -> dict[str, Any]:
    """Return the states of torch's, NumPy's and Python's global generators, as plain numbers and tensors."""
    name, keys, position, has_gauss, cached = np.random.get_state()  # legacy form: five plain values
    return {
        "torch": torch.get_rng_state(),
        "numpy": [str(name), [int(key) for key in keys], int(position), int(has_gauss), float(cached)],
        "random": random.getstate(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else [],  # type: ignore[no-untyped-call]
    }


def restore_generators(states: Mapping[str, Any]) -> None:
    """Set the global generators to stored states."""
    torch.set_rng_state(states["torch"])
    name, keys, position, has_gauss, cached = states["numpy"]
    np.random.set_state((name, np.array(keys, dtype=np.uint32), position, has_gauss, cached))
    version, inner, gauss = states["random"]
    random.setstate((version, tuple(inner), gauss))
    if states["cuda"]:
        torch.cuda.set_rng_state_all(states["cuda"])


def stream_states(draw: Draw) -> dict[str, dict[str, Any]]:
    """Return where every stream stands."""
    return {name: stream.state() for name, stream in draw.streams.items()}


def restore_streams(draw: Draw, states: Mapping[str, Mapping[str, Any]]) -> None:
    """Put every stream where it stood."""
    for name, state in states.items():
        draw(name).restore(state)
