"""A log of every aten operation of a step, forward and backward: what went in, what came out, and whose line it was.

A dispatch mode of our own, not torch's ``torch.utils._debug_mode.DebugMode``: that one compares hashes of whole runs
(``check_hash_mismatches``), which differ at the first operation between float32 and float64, keeps no inputs, and is
private and moving. Here a tensor leaves its norm, a checksum, and a *sketch* of 64 numbers, from which the distance of
two tensors is estimated without keeping either: each bucket is a sum of elements with random signs, so that the squared
distance of two sketches is that of the tensors on average, with a relative standard error of at most (2 / 64)**(1/2)
(Charikar, Chen, Farach-Colton, Finding frequent items in data streams, 2002; Thorup, Zhang, 2012).

**Whose line.** In forward, the nearest frame outside torch and ablate. In backward, the line whose forward made the
graph node that runs, matched by autograd's sequence number; in an autograd function of the user's, its own line.

**What it cannot see**: a compiled region, which torch runs eagerly while a dispatch mode is active (so its own
operations are not those that are logged; see ``ablate.audit.module_log``), and what other libraries compute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from ablate.audit.anchor import signs
from ablate.audit.checksum import checksum, unseen
from ablate.audit.nearby import Place, here, source
from ablate.audit.once import copied
from ablate.audit.operation import computed, name, tensors, terms

BUCKETS = 64
UNWRITTEN = frozenset(("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"))
"""Operations whose results hold whatever the memory held."""
OVERWRITING = frozenset(("copy", "fill", "zero", "normal", "uniform", "bernoulli", "random", "exponential", "set"))
"""Operations that do not read what they write over."""
STATISTICS = frozenset(("native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm"))
"""Operations that write their running mean and variance (arguments 3 and 4), which their schemas do not say."""


@dataclass(frozen=True)
class Seen:
    """A floating tensor as it was when an operation read or made it.

    Attributes:
        shape: its shape.
        norm: Euclidean, in float64.
        sketch: float64, (64,).
        digest: checksum of its contents.
        address: of its first element.
    """

    shape: tuple[int, ...]
    norm: float
    sketch: np.ndarray[Any, np.dtype[np.float64]]
    digest: int
    address: int

    def distance(self, other: Seen) -> float:
        """Return an estimate of ||self - other||, good to a fifth or so; infinite if only one is finite."""
        if not np.isfinite(self.norm) or not np.isfinite(other.norm):
            return 0.0 if np.isfinite(self.norm) == np.isfinite(other.norm) else float("inf")
        return float(np.linalg.norm(self.sketch - other.sketch))


@dataclass(frozen=True)
class Record:
    """One operation.

    Attributes:
        operation: ``aten.mm.default``.
        inputs: floating tensors that it read.
        outputs: floating tensors that it made or wrote.
        terms: the most terms that one element of the outputs is a sum of.
        backward: whether a backward pass ran it.
        node: the graph node that ran it, ``MmBackward0``; empty in forward.
        source: the user's line, ``file.py:12 in forward``; empty if unknown.
        module: the module nearby, ``encoder.0 (Linear)``; empty if there is none.
    """

    operation: str
    inputs: tuple[Seen, ...]
    outputs: tuple[Seen, ...]
    terms: int
    backward: bool
    node: str
    source: str
    module: str

    @property
    def key(self) -> tuple[object, ...]:
        """What the same operation has in common in two runs, whatever their element types."""
        return self.operation, self.backward, tuple(t.shape for t in self.inputs), tuple(t.shape for t in self.outputs)


@dataclass(frozen=True)
class Call:
    """One recorded call: the overload as ``torch.ops.aten.mm.default``, its arguments (copies) and its results."""

    operation: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    results: tuple[Tensor, ...]


def log_operations(run: Callable[[], object], model: nn.Module | None = None) -> list[Record]:
    """Run a step and return its operations in order; views and empty tensors are left out.

    Args:
        run: forward and backward of one step; values are not changed.
        model: gives the modules' names.
    """
    log = _Log(model, keep=-1)
    with log:
        run()
    return log.records


def recorded_call(run: Callable[[], object], position: int) -> Call | None:
    """Run the step again and return the call at a position of its log; None if the log is shorter."""
    log = _Log(None, keep=position)
    with log:
        run()
    return log.call


class _Log(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self, model: nn.Module | None, keep: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.records: list[Record] = []
        self.call: Call | None = None
        self._keep = keep
        self._modules = {id(m): f"{n or 'the model itself'} ({type(m).__name__})" for n, m in _modules(model)}
        self._made: dict[int, tuple[str, str]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        kind = name(func)
        node = torch._C._current_autograd_node()
        where = self._where(here(), node)
        read = list(args[1:] if kind in OVERWRITING and func._schema.name.endswith("_") else args)
        read += [value for key, value in kwargs.items() if key != "out"]
        keep = len(self.records) == self._keep
        before = _copied(args, kwargs) if keep else ((), {})
        inputs = tuple(_seen(t) for t in tensors(read) if _floating(t))
        result = func(*args, **kwargs)
        made = [] if kind in UNWRITTEN else [t for t in computed(func, args, kwargs, result) if _floating(t)]
        if kind in STATISTICS:
            made += [t for t in tensors(args[3:5]) if _floating(t)]
        if made:
            if keep:
                self.call = Call(f"torch.ops.{func}", *before, tuple(t.detach().clone() for t in made))
            outputs = tuple(_seen(t) for t in made)
            number = terms(func, args, kwargs, made)
            self.records.append(
                Record(str(func), inputs, outputs, number, node is not None, node.name() if node else "", *where)
            )
        return result

    def _where(self, place: Place, node: Any) -> tuple[str, str]:
        if node is not None and not isinstance(node, torch.autograd.function.BackwardCFunction):
            return self._made.get(node._sequence_nr(), ("", ""))
        module = self._modules.get(place.module_id, place.module_class)
        where = source(place), module
        if node is None:
            # autograd numbers the node of a differentiable operation just before it is dispatched
            self._made.setdefault(torch._C._autograd._get_sequence_nr() - 1, where)
            return where
        return where[0], where[1] or self._made.get(node._sequence_nr(), ("", ""))[1]


def _modules(model: nn.Module | None) -> Iterator[tuple[str, nn.Module]]:
    if model is not None:
        yield from model.named_modules()


def _floating(t: Tensor) -> bool:
    return (t.is_floating_point() or t.is_complex()) and t.layout is torch.strided and not unseen(t)


def seen(t: Tensor) -> Seen:
    """Look at a floating tensor of any device."""
    with torch._C._DisableTorchDispatch(), torch.no_grad():
        return _seen(t)


def _seen(t: Tensor) -> Seen:
    t = t.detach()
    values = torch.view_as_real(t.resolve_conj()) if t.is_complex() else t
    flat = values.to("cpu", torch.float64).reshape(-1)
    width = -(-flat.numel() // BUCKETS)
    signed = torch.zeros(BUCKETS * width, dtype=torch.float64)
    torch.mul(flat, _signs(flat.numel()), out=signed[: flat.numel()])
    sketch = signed.view(BUCKETS, width).sum(1).numpy()
    return Seen(tuple(t.shape), float(torch.linalg.vector_norm(flat)), sketch, checksum(t), t.data_ptr())


class _Signs:
    """One fixed row of random signs, made longer when a longer one is needed; what was made stays as it was."""

    def __init__(self) -> None:
        self.row = torch.zeros(0, dtype=torch.float64)


_SIGNS = _Signs()


def _signs(length: int) -> Tensor:
    if _SIGNS.row.numel() < length:
        _SIGNS.row = torch.from_numpy(signs("sketches of tensors", max(1 << 16, 1 << (length - 1).bit_length())))
    return _SIGNS.row[:length]


def _copied(args: Any, kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    def copy(value: Any) -> Any:
        if isinstance(value, Tensor):
            return copied(value)
        if isinstance(value, list | tuple):
            return type(value)(copy(one) for one in value)
        return value

    return tuple(copy(one) for one in args), {key: copy(one) for key, one in kwargs.items()}
