"""The processes of one trial with several workers, as each of them sees the others: torch's process group, time limits.

Process 0 listens; its launcher tells the others where. What they tell each other is numbers and JSON, never code: the
port is open to whoever reaches the machine.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from ablate.errors import Problem
from ablate.trial.contract import TrainableError
from ablate.trial.effect import ArmNotInEffect
from ablate.trial.fingerprint import state
from ablate.trial.notice import NOTICE
from ablate.trial.task import LOOPBACK, Rank
from ablate.trial.workers import weights

JOIN_S = 300.0
"""How long processes wait for each other at the start: each imports the trainable and starts its device by itself."""

TRANSPORTS = ("third_party/gloo", "gloo/transport/", "Gloo connectFullMesh", "NCCL error", "NCCL communicator")
"""What stands in the plain errors that a broken connection raises inside of torch's own backward: gloo's begin with its
source file. Not what the system says (Broken pipe), which a trainable's own files and pipes raise too."""

_WRAP = 2**64


class WorkerLost(RuntimeError):
    """Another worker is gone, or did not answer in time; what became of it, its own launcher knows."""


def is_loss(error: BaseException) -> bool:
    """Say whether an error only says that another worker is gone."""
    if isinstance(error, WorkerLost | dist.DistError):
        return True
    return isinstance(error, RuntimeError) and any(word in str(error) for word in TRANSPORTS)


def listen(rank: Rank) -> TCPStore:
    """Open the place where the processes of a trial meet; in process 0."""
    return TCPStore(
        rank.host, 0, world_size=None, is_master=True, timeout=timedelta(seconds=JOIN_S), wait_for_workers=False
    )


class Ranks:
    """One process among those of a trial.

    Args:
        rank: which.
        store: where they meet; None to reach the one that ``rank`` names.
        device: where they compute.
        patience_s: how long one waits for another in a batch.

    Attributes:
        number: of this process, from 0.
        workers: how many there are.
        told: whether any of them was told to leave, as of the batch in hand; the same in each.

    Raises:
        WorkerLost: the others did not come.
    """

    def __init__(self, rank: Rank, store: TCPStore | None, device: torch.device, patience_s: float) -> None:
        self.number, self.workers = rank.number, rank.of
        self.told = False
        if rank.host == LOOPBACK:  # else gloo goes by the machine's name, which need not be reachable
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo0" if sys.platform == "darwin" else "lo")
        with _Losing("meeting the others"):
            self._store = store or TCPStore(
                rank.host, rank.port, is_master=False, timeout=timedelta(seconds=JOIN_S), wait_for_workers=False
            )
            dist.init_process_group(
                "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo",
                store=self._store,
                rank=self.number,
                world_size=self.workers,
                timeout=timedelta(seconds=patience_s),
            )

    def facts(self, mine: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return what every process says of itself, in order of their numbers."""
        return [json.loads(one) for one in self._texts(json.dumps(mine).encode())]

    def from_first(self, content: bytes) -> bytes:
        """Return what process 0 hands over; the others' own is left alone."""
        with _Losing("handing over"):
            length = torch.tensor([len(content)])
            dist.broadcast(length, 0)
            buffer = torch.frombuffer(bytearray(content.ljust(1)), dtype=torch.uint8)
            held = buffer if self.number == 0 else torch.empty(max(int(length), 1), dtype=torch.uint8)
            dist.broadcast(held, 0)
        return held.numpy().tobytes()[: int(length)]

    def start_alike(self, model: nn.Module) -> None:
        """Give every process the weights and buffers of process 0."""
        with _Losing("sharing the initial weights"), torch.no_grad():
            for _, tensor in sorted(state(model).items()):
                whole = tensor.detach().contiguous()
                dist.broadcast(whole, 0)
                tensor.copy_(whole)

    def agree(self, batch_index: int, order: int, content: int | None) -> None:
        """Check that all have the same batch in hand, and hear whether one was told to leave.

        Raises:
            TrainableError: they have not: the trainable's batches depend on something else than its streams.
        """
        mine = [batch_index, _signed(order), _signed(content or 0), int(NOTICE.given)]
        found = self._gather(torch.tensor(mine, dtype=torch.int64), "a batch").tolist()
        self.told = any(one[3] for one in found)
        for number, one in enumerate(found):
            if one[:3] != found[0][:3]:
                what = "order" if one[1] != found[0][1] else "content"
                what = what if one[0] == found[0][0] else f"batch {one[0]}"
                words = f"worker {number} has another {what} than worker 0"
                advice = "Draw from `draw` only; nothing that differs by process may decide a batch."
                raise TrainableError(Problem(f"batch {batch_index}, batches()", words, advice=advice))

    def mean(self, mine: Tensor, rows: int) -> Tensor:
        """Return means over the rows of a whole batch, in float64, from those over each worker's rows.

        Summed in the order of the processes, so that all get the same bits.

        Args:
            mine: shape (k,), of this worker's rows.
            rows: of the whole batch.
        """
        counts = weights(rows, self.workers)
        parts = self._gather(mine.detach().to(torch.float64) * counts[self.number], "a loss")
        total = parts[0].clone()
        for part in parts[1:]:
            total += part
        return total / rows

    def means(self, mine: Mapping[str, Any], rows: int, device: torch.device) -> dict[str, Any]:
        """Return a batch's metrics as means over its rows.

        Raises:
            TrainableError: one is no number.
        """
        if not mine:
            return {}
        try:
            values = [torch.as_tensor(value, dtype=torch.float64, device=device).reshape(()) for value in mine.values()]
        except (TypeError, ValueError, RuntimeError):
            raise TrainableError(Problem("metrics", f"found {dict(mine)!r:.100}", "numbers")) from None
        return dict(zip(mine, self.mean(torch.stack(values), rows).unbind(), strict=True))

    def tell_cpu_s(self, mine: float) -> None:
        """Say what processor time this worker's share took; the first one, which still has to evaluate, asks later."""
        self._store.set(f"cpu_s {self.number}", repr(mine))

    def all_cpu_s(self, mine: float) -> float:
        """Return the processor time of all workers, once the others have said theirs; in process 0.

        Raises:
            WorkerLost: one does not.
        """
        with _Losing("saying what it used"):
            return mine + sum(float(self._store.get(f"cpu_s {number}")) for number in range(1, self.workers))

    def see_out(self) -> None:
        """Wait until process 0 is gone: leaving earlier could break a connection that it still reads from."""
        with contextlib.suppress(RuntimeError):
            self._store.wait(["over"], timedelta(days=365))

    def _texts(self, mine: bytes) -> Sequence[bytes]:
        with _Losing("meeting the others"):
            lengths = self._gather(torch.tensor([len(mine)]), "meeting the others").flatten().tolist()
            padded = torch.frombuffer(bytearray(mine.ljust(max(lengths))), dtype=torch.uint8)
            found = self._gather(padded, "meeting the others")
        return [one.numpy().tobytes()[:length] for one, length in zip(found, lengths, strict=True)]

    def _gather(self, mine: Tensor, what: str) -> Tensor:
        """Return what all have, shape (workers, *shape)."""
        with _Losing(what):
            found = [torch.empty_like(mine) for _ in range(self.workers)]
            dist.all_gather(found, mine)
            return torch.stack(found)


def check_same_code(found: Sequence[Mapping[str, Any]]) -> None:
    """Check that every process runs the same source on the same torch.

    Raises:
        ArmNotInEffect: one does not, as where a node has another version.
    """
    for number, one in enumerate(found):
        for what in ("source_hash", "torch"):
            if one[what] != found[0][what]:
                said = f"worker {number} on {one['host']} has {what} {one[what]}, worker 0 has {found[0][what]}"
                raise ArmNotInEffect(Problem("workers", said, advice="Install the same on every node."))


class _Losing(contextlib.AbstractContextManager["_Losing"]):
    """Turn what torch raises of a broken or silent connection into a lost worker."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, RuntimeError) and not isinstance(error, WorkerLost):
            first = str(error).strip().partition("\n")[0]
            raise WorkerLost(f"another worker is gone, or did not answer ({self._what}): {first}") from error


def _signed(number: int) -> int:
    """Return 64 bits as torch holds them."""
    number %= _WRAP
    return number - _WRAP if number >= _WRAP // 2 else number
