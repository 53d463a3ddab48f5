"""How long the longest sum of a step is, measured along the float64 reference.

A result that is added to a result is one rounding higher: a gradient accumulated over the time steps of a recurrent
network counts its own sum's terms and one for each step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from ablate.audit.operation import RESULTS_ADDED, computed, name, outputs, sums, tensors, terms
from ablate.audit.plain_attention import PlainAttention

_KEPT = frozenset(("clone", "detach", "alias", "_to_copy", "copy", "contiguous", "_unsafe_view"))

NOWHERE = 0
"""What tensors without a storage share in its place."""


class _Kind(NamedTuple):
    """What an operation does to heights, read off its name and schema once.

    Attributes:
        operation: the overload; kept, so that no other can take its place in memory.
        looks: whether it makes or writes anything.
        single: whether all it makes is its one result.
        adds: how much higher its result is than the highest of its inputs; None where these do not count.
        flat: whether its result has one rounding, if no input has more elements.
    """

    operation: Any
    looks: bool
    single: bool
    adds: int | None
    flat: bool


class ReductionLength(PlainAttention):  # type: ignore[no-untyped-call]
    """Runs a step as it is and notes the height of the highest summation tree.

    Attributes:
        longest: terms of the longest sum, at least 1.
    """

    def __init__(self) -> None:
        super().__init__()
        self.longest = 1
        self._heights: dict[int, int] = {}  # by storage: the height of what was last computed there
        # a storage's identity is not given to another while a weak reference is held; its memory is, also without an
        # operation that says so (`torch.tensor`, `from_numpy`)
        self._held: list[StorageWeakRef] = []
        self._kinds: dict[int, _Kind] = {}  # by identity: an overload's own hash is slow, and this runs for each call

    @contextmanager
    def left(self) -> Iterator[None]:
        """Leave the mode for a block, whose operations are neither measured nor slowed down; it must be the inmost."""
        self.__exit__(None, None, None)
        try:
            yield
        finally:
            self.__enter__()

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call the operation and note its terms."""
        kwargs = kwargs or {}
        kind = self._kinds.get(id(func)) or self._learn(func)
        if not kind.looks:
            return func(*args, **kwargs)
        before = 1 if kind.adds is None else max((self._heights.get(_storage(t), 1) for t in tensors(args)), default=1)
        result = func(*args, **kwargs)
        if kind.single:
            made = [result] if result.is_floating_point() or result.is_complex() else []
        else:
            made = computed(func, args, kwargs, result)
        if made:
            if kind.adds is not None:
                height = before + kind.adds
            elif kind.flat and _none_larger(args, result.numel()):
                height = 1
            else:
                height = terms(func, args, kwargs, made)
            for t in made if height > 1 or not kind.single else ():  # a new one's is 1
                self._note(t, height)
            self.longest = max(self.longest, height)
        return result

    def _note(self, t: Tensor, height: int) -> None:
        try:
            storage = t.untyped_storage()
        except (RuntimeError, NotImplementedError):  # sparse and other layouts have none
            self._heights[NOWHERE] = height
            return
        if storage._cdata not in self._heights:
            self._held.append(StorageWeakRef(storage))  # type: ignore[no-untyped-call]
        self._heights[storage._cdata] = height

    def _learn(self, func: Any) -> _Kind:
        kind = name(func)
        new, written = outputs(func)
        single = new == (True,) and not written and str(func._schema.returns[0].type) == "Tensor"
        adds = 1 if kind in RESULTS_ADDED else 0 if kind in _KEPT else None
        found = _Kind(func, any(new) or bool(written), single, adds, single and not sums(func))
        self._kinds[id(func)] = found
        return found


def _none_larger(args: tuple[Any, ...], size: int) -> bool:
    return all(a.numel() <= size if isinstance(a, Tensor) else not isinstance(a, list | tuple) for a in args)


def _storage(t: Tensor) -> int:
    try:
        identity: int = t.untyped_storage()._cdata
        return identity
    except (RuntimeError, NotImplementedError):
        return NOWHERE
