"""``perturb: permute-rows``: the same samples in another order within each batch, so sums over them round differently.

The order comes from a stream of its own (``session.declared``). A batch is hashed before, so the data order counts as
what it is for the other arms.
"""

from __future__ import annotations

import torch

from ablate.errors import Problem
from ablate.trial.draw import Stream
from ablate.trial.effect import ArmNotInEffect
from ablate.trial.protocol import Batch

STREAM = "ablate:permute"


def check_independent_rows(trainable: object) -> None:
    """Check that a trainable says its batches may be reordered.

    Nobody else can know: the rows of a window of video are its frames, and a state that is carried to the next batch
    belongs to a row.

    Raises:
        ArmNotInEffect: it does not say so.
    """
    if not getattr(trainable, "independent_rows", False):
        name = getattr(trainable, "__name__", str(trainable))
        raise ArmNotInEffect(
            Problem(
                "perturb",
                f"asked for permute-rows, but {name} does not say that the rows of its batches are independent",
                advice=f"Set {name}.independent_rows = True if row i of every tensor of a batch is sample index[i] and "
                "nothing that is carried to the next batch belongs to a row; else remove the arm.",
            )
        )


def permuted(batch: Batch, stream: Stream) -> Batch:
    """Return ``batch`` with its rows, the first dimension of every tensor and of the index, in a drawn order.

    Raises:
        ArmNotInEffect: a tensor has another number of rows than the index has entries, or there is one row only.
    """
    rows = len(batch.index)
    if rows < 2:
        raise _refused(f"the index names {rows} sample{'' if rows == 1 else 's'}")
    for name, tensor in batch.tensors.items():
        if tensor.dim() == 0 or len(tensor) != rows:
            raise _refused(f"tensor {name!r} has shape {tuple(tensor.shape)} and the index {rows} entries")
    order = stream.permutation(rows)
    chosen = torch.from_numpy(order)
    return Batch(batch.index[order], {name: tensor[chosen] for name, tensor in batch.tensors.items()})


def _refused(found: str) -> ArmNotInEffect:
    allowed = "batches of 2 or more rows, one for each entry of the index"
    return ArmNotInEffect(Problem("perturb", f"asked for permute-rows, but {found}", allowed))
