"""Gradients that torch did not derive: custom autograd functions on the way to a loss, and which of them are steps.

A straight-through estimator (Bengio, Leonard, Courville, arXiv 1308.3432) rounds or takes signs in forward and passes
the gradient on as if it had not. The true slope of a step function is 0 almost everywhere, so its backward is never the
slope, by intent; a wrong backward of a smooth function is not either, by mistake. What tells them apart is forward
alone: the loss is evaluated at its point and two steps to either side, and no element of a step function's output
follows. An element counts as following if it has three different values on one side: one that met a step has two.

Where the steps' width is measured from the tensor itself (its largest element over 127), the outputs move with the
width, but stay multiples of it. So a function whose outputs lie on an evenly spaced lattice after a step counts too.

A function is asked only if what it reads has moved; one behind another's steps stands still whatever it computes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import BackwardCFunction
from torch.utils._python_dispatch import TorchDispatchMode

from ablate.audit.checksum import checksum
from ablate.audit.nearby import Place, source
from ablate.audit.operation import tensors

STEPS = (2.0**-25, 2.0**-23)
"""Relative to a parameter's size: so small that a number seldom meets a step, and never two."""
COARSE_STEPS = (2.0**-20, 2.0**-18)
"""Where the outputs are float32's numbers: 16 and 64 of its roundings, or a smooth function would seem to stand."""
FEW = 8
FEW_EACH = 5
"""Elements of a lattice, and of each where a tensor's slices lie on one each, at least."""
EVEN = 2.0**-6
"""How far off a lattice's places, in units of its width. Of 8 different numbers that have nothing to do with a lattice
two give it its place and width, and the others lie so near to it with probability (2 EVEN)**6, 1e-9; of 5, 3e-5. Up to
``GAPS`` widths are tried."""
GAPS = 64
"""Widths in the smallest gap between two elements, at most: of few elements no two need be neighbours."""
LARGEST_LATTICE = 2.0**16
"""Places of a lattice, at most: of a quantiser of 16 bits."""


@dataclass(frozen=True)
class Replaced:
    """A function on the way to the loss whose backward is not torch's own.

    Attributes:
        name: of its class, with the line of its forward: ``Sign (layers.py:12)``.
        parameters: identities of the parameters behind it, whose gradients pass through it.
        step: whether its forward is a step function.
    """

    name: str
    parameters: frozenset[int]
    step: bool


Moved = Callable[[float], AbstractContextManager[None]]


def has_replaced(loss: Tensor) -> bool:
    """Say whether a loss with its graph has such a function on its way."""
    return any(_replaces(node) for node in _behind(loss.grad_fn))


def replaced(evaluate: Callable[[], Tensor], moved: Moved) -> list[Replaced]:
    """Return the functions on the way to a loss whose backward is not torch's own, in the order of forward.

    Args:
        evaluate: the loss with its graph; called 5 times, or 9 where float32 is seen.
        moved: step -> context in which every parameter is moved by so much of its size, along one direction.
    """
    here = _look(evaluate)
    sides = [[_look(evaluate, moved(sign * step)) for step in STEPS] for sign in (1.0, -1.0)]
    steps = [_stands(k, here, sides) for k in range(len(here))]
    if any(stands and _of_float32(node) for node, stands in zip(here, steps, strict=True)):
        coarse = [[_look(evaluate, moved(sign * step)) for step in COARSE_STEPS] for sign in (1.0, -1.0)]
        steps = [
            stands and (not _of_float32(node) or _stands(k, here, coarse))
            for k, (stands, node) in enumerate(zip(steps, here, strict=True))
        ]
    return [Replaced(node.name, node.parameters, stands) for node, stands in zip(here, steps, strict=True)]


@dataclass
class _Node:
    """One function in one evaluation: its outputs, and checksums of what it reads; None for what was not seen."""

    name: str
    parameters: frozenset[int]
    outputs: dict[int, Tensor] = field(default_factory=dict)
    inputs: tuple[int | None, ...] = ()


def _look(evaluate: Callable[[], Tensor], where: AbstractContextManager[None] | None = None) -> list[_Node]:
    seen = _Seen()
    with where or nullcontext():
        with torch.enable_grad(), seen:
            loss = evaluate()
        return seen.nodes(loss)


class _Seen(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Keeps what such functions gave, and checksums of all that has a graph: one of them may read it."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._outputs: dict[Any, dict[int, Tensor]] = {}
        self._sums: dict[tuple[Any, int], int] = {}

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Look at the inputs and call the operation."""
        for t in tensors([*args, *(kwargs or {}).values()]):
            self._note(t)
        return func(*args, **(kwargs or {}))

    def _note(self, t: Tensor) -> None:
        node = t.grad_fn
        if node is None or t.layout is not torch.strided or (node, t.output_nr) in self._sums:
            return
        plain = t.detach()
        self._sums[node, t.output_nr] = checksum(plain)
        if _replaces(node):
            self._outputs.setdefault(node, {})[t.output_nr] = plain.clone()

    def nodes(self, loss: Tensor) -> list[_Node]:
        """Return the functions on the way to the loss, in the order of forward."""
        self._note(loss)
        found = sorted(filter(_replaces, _behind(loss.grad_fn)), key=lambda node: node._sequence_nr())
        return [
            _Node(
                name=_name(node),
                parameters=frozenset(
                    id(t) for one in _behind(node) if (t := getattr(one, "variable", None)) is not None
                ),
                outputs=self._outputs.get(node, {}),
                inputs=tuple(self._sum(*edge) for edge in node.next_functions if edge[0] is not None),
            )
            for node in found
        ]

    def _sum(self, node: Any, number: int) -> int | None:
        variable = getattr(node, "variable", None)
        return checksum(variable.detach()) if variable is not None else self._sums.get((node, number))


def _stands(k: int, here: list[_Node], sides: list[list[list[_Node]]]) -> bool:
    """Say whether the outputs of function ``k`` stand still, or on a lattice, while what it reads moves."""
    looks = [look for side in sides for look in side]
    if any([node.name for node in look] != [node.name for node in here] for look in looks):
        return False
    node, ends = here[k], [look[k] for look in looks]
    moves = any(a is not None and a != b for end in ends for a, b in zip(node.inputs, end.inputs, strict=False))
    if not moves or not node.outputs:
        return False
    return all(
        not any(_follows(out, near[k].outputs.get(nr), far[k].outputs.get(nr)) for near, far in sides)
        or all(_even(end.outputs.get(nr)) for end in ends)
        for nr, out in node.outputs.items()
    )


def _follows(here: Tensor, near: Tensor | None, far: Tensor | None) -> bool:
    """Say whether an element has three values at three points; also if the points cannot be compared."""
    if near is None or far is None or not here.shape == near.shape == far.shape:
        return True
    return bool(((here != near) & (near != far) & (here != far)).any())


def _even(t: Tensor | None) -> bool:
    """Say whether the elements, or those of each slice along the first dimension, lie on an evenly spaced lattice."""
    if t is None or not t.is_floating_point() or t.numel() < FEW:
        return False
    slices = t.dim() > 1 and t[0].numel() >= FEW_EACH
    return _lattice(t.reshape(-1)) or (slices and all(_lattice(one.reshape(-1)) for one in t))


def _lattice(x: Tensor) -> bool:
    places = torch.unique(x.to("cpu", torch.float64))
    if not bool(torch.isfinite(places).all()):
        return False
    if places.numel() < 3:
        return True
    gaps = (places - places[0]) / places.diff().min()
    tried = (gaps * widths for widths in range(1, GAPS + 1))
    return any(bool(((steps - steps.round()).abs() < EVEN).all()) for steps in tried if steps[-1] < LARGEST_LATTICE)


def _of_float32(node: _Node) -> bool:
    """Say whether the outputs are float32's numbers, with more bits than a narrow type's or a lattice's."""
    for t in node.outputs.values():
        narrow = t.to(torch.float32)
        if torch.equal(narrow.to(t.dtype), t) and not torch.equal(t.to(torch.bfloat16).to(t.dtype), t):
            return True
    return False


def _replaces(node: Any) -> bool:
    """Whether a graph node's backward is a user's, or torch's own straight-through one."""
    return isinstance(node, BackwardCFunction) or "FakeQuant" in node.name()


def _name(node: Any) -> str:
    made = getattr(node, "_forward_cls", None)
    if made is None:
        return str(node.name()).removesuffix("Backward0")
    code = made.forward.__code__
    return f"{made.__name__} ({source(Place(code, 0, 0, '')).partition(' in ')[0]})"


def _behind(node: Any) -> Iterator[Any]:
    """Yield a node and all that its gradient is passed on to, each once."""
    waiting, met = [node] if node is not None else [], set()
    while waiting:
        one = waiting.pop()
        if one in met:
            continue
        met.add(one)
        yield one
        waiting += [further for further, _ in one.next_functions if further is not None]
