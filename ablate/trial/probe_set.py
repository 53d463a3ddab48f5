"""What a probe computes the loss on: the same few batches in every arm and block of a study."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import xxhash

from ablate.errors import Problem
from ablate.trial.contract import TrainableError, checked_batches
from ablate.trial.draw import Draw
from ablate.trial.fingerprint import content_hash
from ablate.trial.protocol import Batch
from ablate.trial.weights import seed_global_generators

BLOCK = -1
"""Stands in for the block in the keys of the streams: no block of a study has it, so no trial trains on these draws."""


@dataclass(frozen=True)
class ProbeSet:
    """A few batches of a trainable.

    Attributes:
        batches: as the trainable gave them.
        digest: hash of their indices and contents, as 16 hex digits.
    """

    batches: tuple[Batch, ...]
    digest: str

    @property
    def sizes(self) -> tuple[int, ...]:
        """Samples of each batch: entries of its index."""
        return tuple(batch.index.size for batch in self.batches)


def probe_set(make: Callable[..., Any], settings: Mapping[str, Any], study: str, count: int) -> ProbeSet:
    """Draw the first batches of a trainable from streams that depend on the study alone.

    Args:
        make: the trainable's class.
        settings: its settings.
        study: name of the study.
        count: how many batches.

    Raises:
        TrainableError: it gives too few, something else, or one without samples.
    """
    seed_global_generators(study, BLOCK)
    batches = tuple(islice(checked_batches(make(**settings).batches(Draw(study, BLOCK))), count))
    where = "probe set"
    if len(batches) < count:
        raise TrainableError(
            Problem(where, f"batches() ended after {len(batches)} of {count}", "", "", "It must yield without end.")
        )
    digest = xxhash.xxh3_64()
    for batch in batches:
        if not isinstance(batch, Batch) or not batch.index.size:
            found = "an empty batch" if isinstance(batch, Batch) else f"a {type(batch).__name__}"
            raise TrainableError(Problem(where, f"batches() gave {found}", "a Batch with at least one index"))
        digest.update(f"{batch.index.size}|".encode() + batch.index.tobytes())
        digest.update(content_hash(batch.tensors).to_bytes(8, "little"))
    return ProbeSet(batches, f"{digest.intdigest():016x}")
