"""The first operation whose result departs between two runs of the same step, while what it read still agreed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

from torch import nn

from ablate.audit.module_log import PARAMETER, log_modules
from ablate.audit.operation import MATMULS
from ablate.audit.operation_log import Record, Seen, log_operations

JUMP = 10.0
"""How far below the bound the inputs must agree for a result beyond it to be the operation's own doing."""
QUADRATIC = 20_000
"""Longest logs whose differing middle is aligned in full; in longer ones only their common beginning and end are."""

COPIES = ("aten.clone", "aten.copy_", "aten._to_copy", "aten.detach")
ADDED = frozenset(("add", "add_", "sub", "sub_", "rsub", "lerp", "lerp_"))
SUMMED = frozenset(("sum", "cumsum", "index_add", "scatter_add", "embedding_dense_backward", "logsumexp"))


@dataclass(frozen=True)
class Departure:
    """Where two runs part.

    Attributes:
        kind: ``operation``: it computes something else from agreeing inputs; ``input``: something it reads was changed
            since it was last seen, or was another from the start; ``gradual``: differences grew past the bound bit by
            bit, in no one operation.
        operation: ``aten.mm.default``.
        position: its place in the first run's log, for ``recorded_call``; of a module's log if ``by_module``.
        forward_or_backward: which pass ran it.
        source: the user's line, of the forward that made it if it is a backward operation; empty if unknown.
        module: the module nearby; empty if there is none.
        error: ||a - b|| of the tensor that departs, estimated to a fifth or so; infinite if one is not finite.
        scale: ||b||, or what cancelled in it if that is more; b is the second run's.
        words: all this, in words.
        by_module: whether only modules were compared.
    """

    kind: Literal["operation", "input", "gradual"]
    operation: str
    position: int
    forward_or_backward: Literal["forward", "backward"]
    source: str
    module: str
    error: float
    scale: float
    words: str
    by_module: bool = False


def first_departure(
    run: Callable[[], object], reference: Callable[[], object], bound: float, model: nn.Module | None = None
) -> Departure | None:
    """Log two runs of the same step, operation by operation, and find where they part.

    Args:
        run: forward and backward of the step, as it is judged.
        reference: the same, as it should be; the element type may be another, extra copies and casts may be there.
        bound: relative error beyond which a tensor departs; ten times what rounding does to one operation, or more.
        model: gives modules' names.

    Returns:
        The first departure; None if there is none. Of gradual ones the first, if no operation makes a jump.
    """
    return departure(log_operations(run, model), log_operations(reference, model), bound)


def first_module_departure(
    run: Callable[[], object],
    reference: Callable[[], object],
    bound: float,
    model: nn.Module,
    reference_model: nn.Module | None = None,
) -> Departure | None:
    """Compare modules' outputs and their gradients only: for compiled modules, whose operations no log can see.

    Args:
        run: forward and backward of the step through ``model``.
        reference: the same through ``reference_model``.
        bound: as of ``first_departure``.
        model: the model that ``run`` uses.
        reference_model: the model that ``reference`` uses, of the same structure; None if it is the same.
    """
    logs = log_modules(run, model), log_modules(reference, reference_model or model)
    return departure(*logs, bound, by_module=True)


def departure(
    log: Sequence[Record], reference: Sequence[Record], bound: float, by_module: bool = False
) -> Departure | None:
    """Find where two logs part; see ``first_departure``."""
    gradual: Departure | None = None
    judged: dict[tuple[int, int], float] = {}
    held: dict[tuple[int, tuple[int, ...]], dict[int, Seen]] = {}
    for position, record, other in _aligned(log, reference):
        if other is None:
            _remember(held, record)
            continue
        make = _Maker(position, record, by_module)
        worst = 0.0
        for mine, theirs in zip(record.inputs, other.inputs, strict=False):
            known = judged.get((mine.digest, theirs.digest))
            error = mine.distance(theirs)
            relative = _relative(error, theirs.norm) if known is None else known
            if known is None:
                judged[mine.digest, theirs.digest] = relative
                if relative > bound and gradual is None:
                    before = held.get((mine.address, mine.shape), {}).values()
                    changed = any(_relative(t.distance(theirs), theirs.norm) <= bound for t in before)
                    return make.of_input(error, theirs.norm, changed)
            worst = max(worst, relative)
        for mine, theirs in zip(record.outputs, other.outputs, strict=False):
            error, scale = mine.distance(theirs), _scale(other, theirs)
            relative = _relative(error, scale)
            if relative > bound and worst <= bound / JUMP:
                return make.of_output("operation", error, scale)
            if relative > bound and gradual is None:
                gradual = make.of_output("gradual", error, scale)
            judged[mine.digest, theirs.digest] = relative
        _remember(held, record)
    return gradual


def _remember(held: dict[tuple[int, tuple[int, ...]], dict[int, Seen]], record: Record) -> None:
    for t in (*record.inputs, *record.outputs):
        held.setdefault((t.address, t.shape), {})[t.digest] = t


def _relative(error: float, scale: float) -> float:
    return 0.0 if error == 0 else error / scale if scale > 0 else math.inf


def _scale(record: Record, output: Seen) -> float:
    """||output||, or the size it would have if what it sums had random signs: less than that is cancellation."""
    if record.operation.startswith(PARAMETER):
        return max([output.norm, *(t.norm for t in record.inputs)])
    kind = record.operation.split(".")[1]
    norms = sorted((t.norm for t in record.inputs), reverse=True)
    usual = 0.0
    if kind in MATMULS or "convolution" in kind:
        usual = norms[0] * norms[1] / math.sqrt(record.terms) if len(norms) > 1 else 0.0
    elif kind in ADDED or kind in SUMMED:
        usual = norms[0] if norms else 0.0
    elif kind == "mean":
        usual = norms[0] / record.terms if norms else 0.0
    return max(output.norm, usual) if math.isfinite(usual) else output.norm


def _aligned(log: Sequence[Record], reference: Sequence[Record]) -> Iterator[tuple[int, Record, Record | None]]:
    """Yield each record of the first log with its partner in the second; None if it has none."""
    a, b = [record.key for record in log], [record.key for record in reference]
    start = _common(a, b)
    end = min(_common(a[::-1], b[::-1]), len(a) - start, len(b) - start)
    partner = dict(zip(range(start), range(start), strict=True))
    middle_a, middle_b = a[start : len(a) - end], b[start : len(b) - end]
    if len(middle_a) + len(middle_b) <= QUADRATIC:
        for block in SequenceMatcher(None, middle_a, middle_b, autojunk=False).get_matching_blocks():
            partner.update((start + block.a + k, start + block.b + k) for k in range(block.size))
    partner.update((len(a) - end + k, len(b) - end + k) for k in range(end))
    for position, record in enumerate(log):
        yield position, record, reference[partner[position]] if position in partner else None


def first_unlike(log: Sequence[Record], reference: Sequence[Record]) -> tuple[Record, Record] | None:
    """Return the first place where two logs hold another operation, or one on other shapes; None if there is none.

    Copies and casts are passed over: a reference may copy what it saves.
    """
    kept = [[one for one in records if not one.operation.startswith(COPIES)] for records in (log, reference)]
    for mine, theirs in zip(*kept, strict=False):
        if mine.key != theirs.key:
            return mine, theirs
    return None


def _common(a: Sequence[object], b: Sequence[object]) -> int:
    return next((k for k, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


@dataclass(frozen=True)
class _Maker:
    """Puts a departure in words."""

    position: int
    record: Record
    by_module: bool

    def of_output(self, kind: Literal["operation", "gradual"], error: float, scale: float) -> Departure:
        what = "departs though its inputs agree" if kind == "operation" else "is the first past the bound"
        rest = "; differences grew bit by bit, no one operation makes them" if kind == "gradual" else ""
        return self._make(kind, error, scale, f"the result of {self._who()} {what}", rest)

    def of_input(self, error: float, scale: float, changed: bool) -> Departure:
        rest = (
            "; its memory held the right contents before, and was overwritten"
            if changed
            else "; no operation seen here made it so"
        )
        return self._make("input", error, scale, f"what {self._who()} reads departs", rest)

    def _who(self) -> str:
        node = f" in {self.record.node}" if self.record.node else ""
        return f"{self.record.operation}{node} ({self._pass()})"

    def _pass(self) -> Literal["forward", "backward"]:
        return "backward" if self.record.backward else "forward"

    def _make(
        self, kind: Literal["operation", "input", "gradual"], error: float, scale: float, what: str, rest: str
    ) -> Departure:
        size = _relative(error, scale)
        how = f"by {size:.2g} of its size" if math.isfinite(size) else "without limit"
        module = f", module {self.record.module}" if self.record.module else ""
        line = f", {'made at ' if self.record.backward else ''}{self.record.source}" if self.record.source else ""
        words = f"{what} {how}{module}{line}{rest}"
        return Departure(
            kind, self.record.operation, self.position, self._pass(), self.record.source, self.record.module,
            error, scale, words, self.by_module,
        )  # fmt: skip
