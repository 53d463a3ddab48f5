"""The saved-tensor guard: says which tensors were overwritten between the forward pass that saved them and backward.

Autograd keeps tensors for backward. If one is overwritten in between, the gradient is wrong and the loss is not. torch
refuses such a write when its version counter sees it; a write through NumPy, ``.data`` or another library goes unseen.
The guard takes a checksum of every tensor when autograd saves it and again when backward asks for it.

**torch's own refusal is kept.** Saved-tensor hooks switch off autograd's version check, so the guard does it: a moved
counter is a RuntimeError here as it is there, and a finding. Like torch, the guard judges whatever an operation asks
for, even where it enters no gradient that is wanted (a first layer's weight, whose input needs none).

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

**On a GPU.** The contents of a CUDA tensor are copied to the CPU to be hashed, at each save and at each use, with none
of the shortcuts above: one copy and one wait for the device each, on watched batches only. Backward of CUDA operations
runs in a thread of autograd's own, beside CPU operations in the calling thread, so the hooks take turns under a lock.
Which backward is running and which operation asks are known per thread to torch; where a tensor was saved is read off
the stack of the thread that saved it, which is the user's unless a backward itself builds a graph.

**What the guard cannot see**: tensors under other saved-tensor hooks inside it (those that non-reentrant checkpointing
recomputes, of which it sees the inputs only; ``save_on_cpu``); what a compiled region keeps inside, of which it sees
what crosses from its forward to its backward; tensors without contents (counted in ``unseen``); values an autograd
function keeps as attributes; ``detach_()`` on a saved tensor, which torch refuses and which leaves the gradient right;
a result whose ``.data`` is replaced: the guard goes on with the saved contents. ``torch.func.grad`` and its kin
refuse to run under any saved-tensor hook, and a tensor subclass that requires gradient comes back to an autograd
function as a plain tensor, as under any such hook.
"""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch._C import _current_graph_task_id
from torch.autograd.graph import saved_tensors_hooks

from ablate.audit.checksum import PLAIN, checksum, dense_bytes, digest, unseen
from ablate.audit.nearby import here
from ablate.audit.overwritten import Overwritten, refusal, seen_write, unseen_write
from ablate.audit.role import role
from ablate.audit.saved import Region, Saved

EXACT = 65536
"""Bytes up to which hashing costs less than the bookkeeping that would avoid it."""

PROBE = 1024

__all__ = ["Overwritten", "SavedTensorGuard"]


class SavedTensorGuard:
    """Watches batches: ``with guard.batch(k):`` around forward and backward, or ``start(k)`` and ``stop()`` by hand.

    Backward may run after the watching has stopped: what was saved under it is still compared. Values are not changed:
    losses and gradients are bitwise those without the guard.

    Attributes:
        findings: what was overwritten, in the order found; one entry a tensor, however many operations saved it.
        tensors_saved: how many times a tensor was saved.
        tensors_checked: how many times backward asked for one and it was compared.
        tensors_changed: how many of those had changed; more than findings if a tensor was asked for several times.
        unseen: why tensors could not be compared -> how many.
    """

    def __init__(self, model: nn.Module | None = None) -> None:
        """Make a guard; ``model`` names parameters and modules in findings.

        It is held weakly: graphs hold the guard, and a model may keep a result with its graph.
        """
        self.findings: list[Overwritten] = []
        self.tensors_saved = 0
        self.tensors_checked = 0
        self.tensors_changed = 0
        self.unseen: Counter[str] = Counter()
        self._model = weakref.ref(model) if model is not None else None
        self._used = 0
        self._hooks: saved_tensors_hooks | None = None
        self._batch_index = -1
        self._regions: dict[tuple[int, int], weakref.ref[Region]] = {}
        self._last_parameter = 0
        self._clock = 0
        self._task = -1
        self._backward = False
        self._turn = threading.RLock()  # a finding reads saved tensors of the graph, which can come back here

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

    def name_after(self, model: nn.Module) -> None:
        """Name parameters and modules in findings by ``model``, which was not there yet when the guard was made."""
        self._model = weakref.ref(model)

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

    def _pack(self, t: Tensor) -> Saved:
        """Called by autograd, without gradient, when it saves ``t``."""
        with self._turn:
            return self._saved(t)

    def _saved(self, t: Tensor) -> Saved:
        self.tensors_saved += 1
        if self._backward:
            self._backward = False
            self._clock += 1
            self._regions.clear()
        kind = type(t)
        if kind is nn.Parameter:
            self._last_parameter = id(t)
        region = self._region(t, kind)
        return Saved(region, here(), self._last_parameter, self._batch_index)

    def _region(self, t: Tensor, kind: type) -> Region:
        if kind not in PLAIN:
            return self._unusual_region(t)
        reason = unseen(t)
        if reason:
            self.unseen[reason] += 1
            return Region(t.detach(), t._version, 0, None)
        length = dense_bytes(t)
        leaf = t.is_leaf
        if not length or (leaf and kind is not nn.Parameter):
            region = Region(t.detach(), t._version, length, weakref.ref(t) if leaf and _is_strided(t) else None)
            region.checksum = digest(t.data_ptr(), length) if length else self._slow_checksum(region.tensor)
            return region
        address, version = t.data_ptr(), t._version
        small = length <= EXACT
        look = digest(address, length) if small else digest(address + length // 2, PROBE)
        known = self._regions.get((address, version))
        shared = known() if known is not None else None
        if shared is not None and shared.look == look and _same_layout(shared.tensor, t):
            return shared
        region = Region(t.detach(), version, length, weakref.ref(t) if leaf else None)
        region.look = look
        region.checksum = look if small else digest(address, length)
        self._regions[address, version] = weakref.ref(region)
        return region

    def _unusual_region(self, t: Tensor) -> Region:
        """A subclass is watched as a plain tensor, without calling its torch functions, and given back as itself."""
        kind = type(t)
        with torch._C.DisableTorchFunctionSubclass():
            reason = unseen(t)
            if reason:
                self.unseen[reason] += 1
                return Region(t.detach(), t._version, 0, None)
            region = Region(t.detach(), t._version, 0, None)
        region.kind = kind
        region.checksum = self._slow_checksum(region.tensor)
        return region

    def _slow_checksum(self, t: Tensor) -> int | None:
        try:
            return checksum(t)
        except (RuntimeError, NotImplementedError) as problem:  # a layout this torch cannot take apart
            self.unseen[f"{t.layout}: {str(problem).splitlines()[0]}"] += 1
            return None

    def _unpack(self, saved: Saved) -> Tensor:
        """Called by autograd when backward needs a saved tensor.

        Raises:
            RuntimeError: the tensor's version counter moved; torch refuses this too.
        """
        with self._turn:
            return self._asked_for(saved)

    def _asked_for(self, saved: Saved) -> Tensor:
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
        if region.changed:
            self._report(saved)
        return region.tensor if region.kind is None else region.tensor.as_subclass(region.kind)

    def _compare(self, region: Region) -> None:
        """Hash again. A leaf whose ``.data`` was replaced is used with its new contents, as torch does."""
        original = region.original() if region.original is not None else None
        if original is not None and original.data_ptr() != region.tensor.data_ptr():
            region.tensor = original.detach()
            region.length = dense_bytes(region.tensor)
            region.replaced = True
        length = region.length
        now = digest(region.tensor.data_ptr(), length) if length else checksum(region.tensor)
        region.changed = now != region.checksum

    def _report(self, saved: Saved) -> None:
        use = role(saved)
        if use.written_by_itself:
            return
        self.tensors_changed += 1
        if not saved.region.reported:
            saved.region.reported = True
            self.findings.append(unseen_write(saved, use, self._named_model()))

    def _refusal(self, saved: Saved) -> RuntimeError:
        finding = seen_write(saved, role(saved), self._named_model())
        self.tensors_checked += 1
        self.tensors_changed += 1
        if not saved.region.reported:
            saved.region.reported = True
            self.findings.append(finding)
        return refusal(saved, finding)

    def _named_model(self) -> nn.Module | None:
        return self._model() if self._model is not None else None


def _same_layout(a: Tensor, b: Tensor) -> bool:
    return a.dtype is b.dtype and a.shape == b.shape and a.stride() == b.stride()


def _is_strided(t: Tensor) -> bool:
    return t.layout is torch.strided
