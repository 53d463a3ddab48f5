"""The saved-tensor guard around a whole script: no batches, one pass of autograd after the other.

Backward passes are told apart by autograd's own number for each (a graph task), so nothing in torch has to be replaced
to count them, and torch.compile traces the same functions as without the guard. A backward pass inside another, as
reentrant checkpointing runs them, counts as one of its own.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable

import torch
from torch import Tensor
from torch._C import _current_graph_task_id

from ablate.audit.guard import SavedTensorGuard
from ablate.audit.overwritten import Overwritten
from ablate.audit.saved import Saved
from ablate.audit.script_report import Place, Seen

OUTSIDE = -1
"""Batch index of what a script saves: it has no batches that the guard could know."""

FUNCTIONAL = "calls of torch.func's transforms, which run without the guard"


class ScriptGuard(SavedTensorGuard):
    """Watches the thread that makes it, from now on; what it finds is told and then only counted."""

    def __init__(self, seen: Seen, told: Callable[[Place], None]) -> None:
        """Begin to watch.

        Args:
            seen: filled with what is found; ``look`` brings its counts up to date.
            told: called at each new place.
        """
        super().__init__()
        self._seen = seen
        self._told = told
        self._latest = -1
        self._process = os.getpid()
        self._thread = threading.get_ident()
        seen.torch_imported = True
        if threading.current_thread() is not threading.main_thread():
            seen.thread = threading.current_thread().name
        self.start(OUTSIDE)
        self._let_functional_transforms_pass()

    def look(self) -> Seen:
        """Return what was seen up to now."""
        seen = self._seen
        seen.tensors_saved, seen.tensors_checked = self.tensors_saved, self.tensors_checked
        seen.tensors_changed, seen.tensors_never_used = self.tensors_changed, self.tensors_never_used
        seen.unseen = dict(self.unseen)
        if "torch._dynamo.utils" in sys.modules:
            graphs = int(torch._dynamo.utils.counters["stats"]["unique_graphs"])
            if graphs:
                seen.unseen["what compiled graphs keep inside"] = graphs
        return seen

    def _saved(self, t: Tensor) -> Saved:
        if not self._enough() or not self._outermost():
            return super()._saved(t)
        self.stop()  # torch is calling this hook, so it is the innermost one here, and taking it off takes off ours
        saved = super()._saved(t)
        saved.region.checksum = None  # beyond what was asked for: only torch's own check is made
        return saved

    def _enough(self) -> bool:
        return bool(self._seen.first) and self._seen.backward_passes >= self._seen.first

    def _outermost(self) -> bool:
        return threading.get_ident() == self._thread and _current_graph_task_id() == -1

    def _asked_for(self, saved: Saved) -> Tensor:
        task = _current_graph_task_id()
        if task > self._latest:
            self._latest = task
            self._seen.backward_passes += not self._enough()
        try:
            return super()._asked_for(saved)
        finally:
            if self.findings:
                found, self.findings = self.findings, []
                for finding in found:
                    self._tell(finding)

    def _tell(self, finding: Overwritten) -> None:
        number = self._seen.backward_passes
        place = Place(
            role=finding.role,
            near=finding.near,
            source=finding.source,
            shape=finding.shape,
            dtype=finding.dtype,
            refused=finding.version_moved,
            detail=finding.detail,
            first_pass=number,
            last_pass=number,
            tensors=1,
        )
        if self._seen.add(place) and os.getpid() == self._process:  # a forked worker has a copy of this guard
            self._told(place)

    def _let_functional_transforms_pass(self) -> None:
        """torch.func.grad and its kin refuse to run under saved-tensor hooks: leave ours for as long as they run.

        They say so through two private functions of torch; where these are missing nothing is changed.
        """
        autograd = torch._C._autograd
        names = "_saved_tensors_hooks_disable", "_saved_tensors_hooks_enable", "_top_saved_tensors_default_hooks"
        if not all(hasattr(autograd, name) for name in names):
            return
        disable, enable, top = (getattr(autograd, name) for name in names)
        left = threading.local()

        def leave_and_disable(*args: object, **kwargs: object) -> None:
            mine = (self._pack, self._unpack)
            leave = self._hooks is not None and threading.get_ident() == self._thread and top(True) == mine
            if leave:
                assert self._hooks is not None
                self._hooks.__exit__(None, None, None)
            try:
                disable(*args, **kwargs)
            except BaseException:
                if leave and self._hooks is not None:
                    self._hooks.__enter__()
                raise
            if leave:
                left.hooks = True
                self.unseen[FUNCTIONAL] += 1

        def enable_and_return() -> None:
            enable()
            if getattr(left, "hooks", False):
                left.hooks = False
                if self._hooks is not None:
                    self._hooks.__enter__()

        autograd._saved_tensors_hooks_disable = leave_and_disable
        autograd._saved_tensors_hooks_enable = enable_and_return
