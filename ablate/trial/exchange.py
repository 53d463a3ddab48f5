"""What an audit takes to another machine or version: its first batches, and what they gave here, in one file.

Values are kept as float64, which holds float32 and bfloat16 exactly; batches as they were made. ``bound`` is what
rounding explains of a value's distance from float64, by its bound or by simulation; ``exact`` what rounding in float64
explains of the reference itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from ablate.audit.distance import FACTOR, Distance
from ablate.audit.roundoff import FLOAT64
from ablate.errors import Problem
from ablate.trial.contract import TrainableError
from ablate.trial.fingerprint import content_hash
from ablate.trial.local_audit import Value
from ablate.trial.protocol import Batch


class Kept:
    """Collects one trial's batches and values until it writes them."""

    def __init__(self, path: Path | None, weights: str | None) -> None:
        self._path = path
        self._weights = weights or ""
        self._tensors: dict[str, Tensor] = {}

    def batch(self, number: int, batch: Batch) -> None:
        """Keep a batch as the trainable made it."""
        if self._path is not None:
            self._tensors[f"batch.{number}.index"] = torch.from_numpy(batch.index.copy())
            for name, tensor in batch.tensors.items():
                self._tensors[f"batch.{number}.tensors.{name}"] = tensor.detach().cpu().contiguous().clone()

    def values(self, arm: Mapping[Value, Tensor], float64: Mapping[Value, Tensor], judged: list[Distance]) -> None:
        """Keep what a batch gave; values are kept of one batch only."""
        if self._path is None:
            return
        for kind, found in (("arm", arm), ("float64", float64)):
            for value, tensor in found.items():
                key = f"value.{value.quantity}.{value.name}.{kind}"
                self._tensors[key] = tensor.detach().cpu().to(torch.float64).contiguous().clone()
        for one in judged:
            explained = max(one.bound, FACTOR * (one.noise or 0.0))
            exact = max(explained * FLOAT64 / one.roundoff, one.own_bound or 0.0)
            for kind, bound in (("bound", explained), ("exact", exact)):
                self._tensors[f"value.{one.quantity}.{one.name}.{kind}"] = torch.tensor(bound, dtype=torch.float64)

    def write(self) -> None:
        """Write the file, if one is wanted."""
        if self._path is not None:
            save_file(self._tensors, self._path, {"weights": self._weights})


def stored_batches(path: Path) -> list[Batch]:
    """Return the batches of a file, in order."""
    found = load_file(path)
    numbers = sorted({int(name.split(".")[1]) for name in found if name.startswith("batch.")})
    return [
        Batch(
            np.asarray(found[f"batch.{number}.index"].numpy(), dtype=np.int64),
            {
                name.removeprefix(prefix): tensor
                for name, tensor in found.items()
                if name.startswith(prefix := f"batch.{number}.tensors.")
            },
        )
        for number in numbers
    ]


def given(stored: list[Batch], own: Iterator[Batch], differs: list[str]) -> Iterator[Batch]:
    """Yield stored batches in place of a trainable's own; what its own differ in is added to ``differs`` in words.

    Raises:
        TrainableError: more batches are asked for than are stored.
    """
    for number, batch in enumerate(stored):
        made = next(own, None)
        if not differs and (words := _difference(batch, made)):
            differs.append(f"batch {number}: {words}")
        yield batch
    raise TrainableError(Problem("audit", f"the file holds {len(stored)} batches, and more were asked for"))


def _difference(stored: Batch, made: Batch | None) -> str:
    if made is None:
        return "there is none here"
    if not np.array_equal(stored.index, made.index):
        return "its samples are others, or in another order"
    if content_hash(stored.tensors) == content_hash(made.tensors):
        return ""
    for name, tensor in stored.tensors.items():
        other = made.tensors.get(name)
        if other is None or other.shape != tensor.shape or other.dtype != tensor.dtype:
            return f"{name} has another shape or type"
        unequal = (tensor != other).nonzero()
        if len(unequal):
            place = tuple(int(one) for one in unequal[0])
            return f"{name}{list(place)} is {float(other[place]):.9g} here, {float(tensor[place]):.9g} in the file"
    return "it has other tensors"
