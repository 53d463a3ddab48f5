"""Extreme eigenvectors that a probe found, for the next snapshot's probe to start from and for maps of the loss."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from ablate.trial.tensor_file import TensorFileError, read_tensors, write_tensors


@dataclass(frozen=True)
class Directions:
    """One player's.

    Attributes:
        names: of the parameters that a vector is made of, in order.
        top: (k, n) float64, by descending eigenvalue, each of norm 1.
        bottom: (k, n) float64, by ascending eigenvalue.
    """

    names: list[str]
    top: Tensor
    bottom: Tensor


def save_directions(path: Path, found: Mapping[str, Directions]) -> None:
    """Write each player's directions aside and rename them into place.

    Raises:
        StoreError: if the disk is full or fails.
    """
    write_tensors(path, {player: vars(one) for player, one in found.items()})


def load_directions(path: Path) -> dict[str, Directions]:
    """Read each player's directions; none if they are not there, or damaged: a random start does as well then."""
    if not path.exists():
        return {}
    try:
        return {player: Directions(**one) for player, one in read_tensors(path).items()}
    except (TensorFileError, AttributeError, TypeError) as error:
        print(f"directions found before cannot be used: {error}", flush=True)
        return {}
