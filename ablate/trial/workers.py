"""``workers: N``: N processes compute every batch together, and a trial is the same trial whatever N is.

Each process makes the same global batch from the same streams, so data order, contents and draws have the hashes that
they have with one, and takes its share of the rows. Gradients are averaged by torch's DistributedDataParallel, losses
by ``ablate.trial.ranks``, both weighted by rows, so they are the global batch's. All take the same step.

Process 0 is the trial's: it records, audits, looks, evaluates, keeps weights and checkpoints. The others follow it and
touch no store.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from torch import nn

from ablate.errors import Problem
from ablate.trial.effect import ArmNotInEffect
from ablate.trial.protocol import Batch


def check_mean_over_rows(trainable: object) -> None:
    """Check that a trainable says its batches may be shared out. Nobody else can know what its loss couples.

    Raises:
        ArmNotInEffect: it does not say so.
    """
    missing = [name for name in ("independent_rows", "mean_over_rows") if not getattr(trainable, name, False)]
    if missing:
        name = getattr(trainable, "__name__", str(trainable))
        raise ArmNotInEffect(
            Problem(
                "workers",
                f"asked for several, but {name} does not say {' and '.join(missing)}",
                advice=f"Set {' and '.join(f'{name}.{one} = True' for one in missing)} if row i of every tensor of a "
                "batch is sample index[i], and loss and metrics are the means over rows of what each row gives by "
                "itself; else remove the arm.",
            )
        )


def check_uncoupled(model: nn.Module) -> None:
    """Check that no module of a model couples the rows of a batch.

    Raises:
        ArmNotInEffect: one normalises over the batch.
    """
    for name, module in model.named_modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            found = f"{name or 'the model'} ({type(module).__name__}) normalises over the rows of a batch"
            advice = "Each worker would use the statistics of its own rows. Use LayerNorm or GroupNorm, or one worker."
            raise ArmNotInEffect(Problem("workers", f"asked for several, but {found}", advice=advice))


def shares(rows: int, workers: int) -> list[slice]:
    """Return each worker's rows: neighbours, in order, the first ones with one more where it does not come out even.

    Raises:
        ArmNotInEffect: there are more workers than rows.
    """
    if rows < workers:
        found = f"asked for {workers}, but a batch has {rows} row{'' if rows == 1 else 's'}"
        raise ArmNotInEffect(Problem("workers", found, f"at most {rows} for such batches"))
    each, more = divmod(rows, workers)
    ends = [each * number + min(number, more) for number in range(workers + 1)]
    return [slice(first, last) for first, last in pairwise(ends)]


def share(batch: Batch, rank: int, workers: int) -> Batch:
    """Return a worker's rows of a batch: of the index and of every tensor.

    Raises:
        ArmNotInEffect: a tensor has another number of rows than the index has entries, or there are too few rows.
    """
    for name, tensor in batch.tensors.items():
        if tensor.dim() == 0 or len(tensor) != len(batch.index):
            found = f"tensor {name!r} has shape {tuple(tensor.shape)} and the index {len(batch.index)} entries"
            allowed = "batches whose rows are one for each entry of the index"
            raise ArmNotInEffect(Problem("workers", f"asked for {workers}, but {found}", allowed))
    mine = shares(len(batch.index), workers)[rank]
    return Batch(batch.index[mine], {name: tensor[mine] for name, tensor in batch.tensors.items()})


def weights(rows: int, workers: int) -> Sequence[int]:
    """Return how many of a batch's rows each worker has."""
    return [one.stop - one.start for one in shares(rows, workers)]


def together(workers: int) -> str:
    """Return what an audit's record says of an arm with several workers; nothing for one."""
    if workers == 1:
        return ""
    return f"; what {workers} workers made together is held against one process on the whole batch"
