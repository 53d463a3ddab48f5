"""The saved-tensor guard: says which tensors were overwritten between the forward pass that saved them and backward.

Autograd keeps tensors for backward. If one is overwritten in between, the gradient is wrong and the loss is not. torch
refuses such a write when its version counter sees it; a write through NumPy, ``.data`` or another library goes unseen.
The guard takes a checksum of every tensor when autograd saves it and again when backward asks for it.

**torch's own refusal is kept.** Saved-tensor hooks switch off autograd's version check, so the guard does it: a moved
counter is a RuntimeError here as it is there, and a finding.

**What is hashed, and what each shortcut could miss or wrongly flag.** A tensor up to ``EXACT`` bytes is always hashed,
at every save and every use. A larger one is hashed

- *once per run of saves*: saved again in the same place in memory, at the same version, with the same layout, while
  an earlier save of it is still alive and no backward has used anything since, the earlier checksum is taken over after
  a look at ``PROBE`` bytes in its middle. Only parameters and results of operations are treated so. Data, targets
  and every other tensor that was not computed here, which NumPy can alias, are hashed at each save. What this could
  miss: between two saves with no backward in between, an unseen write that spares the middle and is undone before
  backward. What it could wrongly flag: such a write that stays, when the earlier save is never used in a backward.
- *once per backward*: within one ``backward`` or ``grad`` call, and while nothing new is saved. What this could miss:
  an unseen write by a gradient hook between two uses in the same backward. A second backward over a kept graph hashes
  everything again.

Unless the write is undone, nothing written between forward and backward is missed by either. Saves of one place, at one
version and with equal contents, share an entry, and the version counter that is followed is the first one's: a second
tensor over the same memory with a counter of its own (``nn.Parameter(y.data)``) is followed by its contents alone.

**What the guard cannot see**: tensors under other saved-tensor hooks inside it (those that non-reentrant checkpointing
recomputes, of which it sees the inputs only; ``save_on_cpu``); what a compiled region keeps inside, of which it sees
what crosses from its forward to its backward; tensors without contents (counted in ``unseen``); values an autograd
function keeps as attributes; ``detach_()`` on a saved tensor, which torch refuses and which leaves the gradient right;
a result whose ``.data`` is replaced: the guard goes on with the saved contents. ``torch.func.grad`` and its kin
refuse to run under any saved-tensor hook.
A tensor subclass that requires gradient comes back to an autograd function as a plain tensor, as under any such hook.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch._C import _current_graph_task_id
from torch.autograd.graph import saved_tensors_hooks

from ablate.audit.checksum import PLAIN, checksum, dense_bytes, digest, unseen
from ablate.audit.nearby import Place, here, near, source
from ablate.audit.role import Role, role

EXACT = 65536
"""Bytes up to which hashing costs less than the bookkeeping that would avoid it."""

PROBE = 1024


@dataclass(frozen=True)
class Overwritten:
    """A tensor that autograd saved and that was overwritten before backward used it.

    Attributes:
        batch_index: the batch whose forward saved it.
        shape: its shape.
        dtype: its element type, ``float32``.
        version_moved: whether autograd's version counter saw the write (torch then refuses the backward).
        near: the parameter it is, or the module or parameter nearby, in words; empty if unknown.
        source: the user's line that saved it, ``file.py:123 in function``; empty if unknown.
        detail: what happened, in words.
    """

    batch_index: int
    shape: tuple[int, ...]
    dtype: str
    version_moved: bool
    near: str
    source: str
    detail: str


class _Region:
    """Saved contents: a detached tensor, which keeps the memory alive, and what it was when it was saved."""

    __slots__ = (
        "__weakref__",
        "changed",
        "checked",
        "checksum",
        "kind",
        "length",
        "look",
        "original",
        "replaced",
        "reported",
        "tensor",
        "version",
    )

    def __init__(self, tensor: Tensor, version: int, length: int, original: weakref.ref[Tensor] | None) -> None:
        self.tensor = tensor
        self.version = version
        self.length = length
        self.original = original
        self.checksum: int | None = None
        self.kind: type[Tensor] | None = None
        self.look = 0
        self.checked = -1
        self.changed = False
        self.replaced = False
        self.reported = False


class _Saved:
    """What the graph holds in place of a saved tensor."""

    __slots__ = ("batch_index", "last_parameter", "place", "region", "used")

    def __init__(self, region: _Region, place: Place, last_parameter: int, batch_index: int) -> None:
        self.region = region
        self.place = place
        self.last_parameter = last_parameter
        self.batch_index = batch_index
        self.used = False


class SavedTensorGuard:
    """Watches batches: ``with guard.batch(k):`` around forward and backward, or ``start(k)`` and ``stop()`` by hand.

    Backward may run after the watching has stopped: what was saved under it is still compared. Values are not changed:
    losses and gradients are bitwise those without the guard.

    Attributes:
        findings: what was overwritten, in the order found; one entry a tensor, however many operations saved it.
        tensors_saved: how many times a tensor was saved.
        tensors_checked: how many times backward asked for one and it was compared.
        unseen: why tensors could not be compared -> how many.
    """

    def __init__(self, model: nn.Module | None = None) -> None:
        """Make a guard; ``model`` names parameters and modules in findings.

        It is held weakly: graphs hold the guard, and a model may keep a result with its graph.
        """
        self.findings: list[Overwritten] = []
        self.tensors_saved = 0
        self.tensors_checked = 0
        self.unseen: Counter[str] = Counter()
        self._model = weakref.ref(model) if model is not None else None
        self._used = 0
        self._hooks: saved_tensors_hooks | None = None
        self._batch_index = -1
        self._regions: dict[tuple[int, int], weakref.ref[_Region]] = {}
        self._last_parameter = 0
        self._clock = 0
        self._task = -1
        self._backward = False

    @property
    def tensors_never_used(self) -> int:
        """How many saved tensors no backward has asked for (yet): nothing can be said about them."""
        return self.tensors_saved - self._used

    @contextmanager
    def batch(self, batch_index: int) -> Iterator[SavedTensorGuard]:
        """Watch one batch."""
        self.start(batch_index)
        try:
            yield self
        finally:
            self.stop()

    def start(self, batch_index: int) -> None:
        """Begin to watch a batch.

        Raises:
            RuntimeError: another batch is being watched.
        """
        if self._hooks is not None:
            raise RuntimeError(
                f"guard.start({batch_index}): batch {self._batch_index} is still being watched; call guard.stop() first"
            )
        self._batch_index = batch_index
        self._forget()
        self._hooks = saved_tensors_hooks(self._pack, self._unpack)
        self._hooks.__enter__()

    def stop(self) -> None:
        """Stop watching; nothing happens if no batch is being watched."""
        if self._hooks is not None:
            self._hooks.__exit__(None, None, None)
            self._hooks = None
            self._forget()

    def _forget(self) -> None:
        self._regions.clear()
        self._clock += 1
        self._backward = False
        self._last_parameter = 0

    def _pack(self, t: Tensor) -> _Saved:
        """Called by autograd, without gradient, when it saves ``t``."""
        self.tensors_saved += 1
        if self._backward:
            self._backward = False
            self._clock += 1
            self._regions.clear()
        kind = type(t)
        if kind is nn.Parameter:
            self._last_parameter = id(t)
        region = self._region(t, kind)
        return _Saved(region, here(), self._last_parameter, self._batch_index)

    def _region(self, t: Tensor, kind: type) -> _Region:
        if kind not in PLAIN:
            return self._unusual_region(t)
        reason = unseen(t)
        if reason:
            self.unseen[reason] += 1
            return _Region(t.detach(), t._version, 0, None)
        length = dense_bytes(t)
        leaf = t.is_leaf
        if not length or (leaf and kind is not nn.Parameter):
            region = _Region(t.detach(), t._version, length, weakref.ref(t) if leaf and _is_strided(t) else None)
            region.checksum = digest(t.data_ptr(), length) if length else self._slow_checksum(region.tensor)
            return region
        address, version = t.data_ptr(), t._version
        small = length <= EXACT
        look = digest(address, length) if small else digest(address + length // 2, PROBE)
        known = self._regions.get((address, version))
        shared = known() if known is not None else None
        if shared is not None and shared.look == look and _same_layout(shared.tensor, t):
            return shared
        region = _Region(t.detach(), version, length, weakref.ref(t) if leaf else None)
        region.look = look
        region.checksum = look if small else digest(address, length)
        self._regions[address, version] = weakref.ref(region)
        return region

    def _unusual_region(self, t: Tensor) -> _Region:
        """A subclass is watched as a plain tensor, without calling its torch functions, and given back as itself."""
        kind = type(t)
        with torch._C.DisableTorchFunctionSubclass():
            reason = unseen(t)
            if reason:
                self.unseen[reason] += 1
                return _Region(t.detach(), t._version, 0, None)
            region = _Region(t.detach(), t._version, 0, None)
        region.kind = kind
        region.checksum = self._slow_checksum(region.tensor)
        return region

    def _slow_checksum(self, t: Tensor) -> int | None:
        try:
            return checksum(t)
        except (RuntimeError, NotImplementedError) as problem:  # a layout this torch cannot take apart
            self.unseen[f"{t.layout}: {str(problem).splitlines()[0]}"] += 1
            return None

    def _unpack(self, saved: _Saved) -> Tensor:
        """Called by autograd when backward needs a saved tensor.

        Raises:
            RuntimeError: the tensor's version counter moved; torch refuses this too.
        """
        region = saved.region
        task = _current_graph_task_id()
        if task != self._task or task == -1 or not self._backward:
            self._task = task
            self._clock += 1
            self._backward = True
        if not saved.used:
            saved.used = True
            self._used += 1
        if region.tensor._version != region.version:
            raise self._refusal(saved)
        if region.checksum is None:
            return region.tensor if region.kind is None else region.tensor.as_subclass(region.kind)
        self.tensors_checked += 1
        if region.checked != self._clock or region.length <= EXACT:
            region.checked = self._clock
            self._compare(region)
        if region.changed and not region.reported:
            self._report(saved)
        return region.tensor if region.kind is None else region.tensor.as_subclass(region.kind)

    def _compare(self, region: _Region) -> None:
        """Hash again. A leaf whose ``.data`` was replaced is used with its new contents, as torch does."""
        original = region.original() if region.original is not None else None
        if original is not None and original.data_ptr() != region.tensor.data_ptr():
            region.tensor = original.detach()
            region.length = dense_bytes(region.tensor)
            region.replaced = True
        length = region.length
        now = digest(region.tensor.data_ptr(), length) if length else checksum(region.tensor)
        region.changed = now != region.checksum

    def _report(self, saved: _Saved) -> None:
        use = role(saved)
        if use.written_by_itself:
            return
        saved.region.reported = True
        how = "its .data was replaced" if saved.region.replaced else "a write through NumPy, .data or another library"
        self.findings.append(
            self._finding(
                saved,
                use,
                f"contents changed between forward and backward, unseen by torch's version counter ({how})",
                moved=False,
            )
        )

    def _refusal(self, saved: _Saved) -> RuntimeError:
        region = saved.region
        t = region.tensor
        finding = self._finding(
            saved, role(saved), f"changed in place: at version {t._version}, saved at {region.version}", moved=True
        )
        if not region.reported:
            region.reported = True
            self.findings.append(finding)
        where = "; ".join(word for word in (finding.near, finding.source) if word)
        return RuntimeError(
            "one of the variables needed for gradient computation has been modified by an inplace operation: "
            f"[{t.type()} {list(t.shape)}] is at version {t._version}; expected version {region.version} instead. "
            f"It was saved in batch {saved.batch_index}" + (f" ({where})." if where else ".")
        )

    def _finding(self, saved: _Saved, use: Role, what: str, moved: bool) -> Overwritten:
        t = saved.region.tensor
        needed = f"; needed by {use.operation}" if use.operation else ""
        if use.name:
            needed += f" as {use.name}"
        given = (
            "" if saved.region.original is None else "; not computed in the forward pass (data, target or parameter)"
        )
        return Overwritten(
            batch_index=saved.batch_index,
            shape=tuple(t.shape),
            dtype=str(t.dtype).removeprefix("torch."),
            version_moved=moved,
            near=near(t, saved.place, saved.last_parameter, self._model() if self._model is not None else None),
            source=source(saved.place),
            detail=what + needed + given,
        )


def _same_layout(a: Tensor, b: Tensor) -> bool:
    return a.dtype is b.dtype and a.shape == b.shape and a.stride() == b.stride()


def _is_strided(t: Tensor) -> bool:
    return t.layout is torch.strided
