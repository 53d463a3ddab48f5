"""A node's part in a probe whose store is at a URI: fetches what the trial kept, uploads what was found."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

from ablate.errors import StoreError
from ablate.record.lock import is_held
from ablate.record.mirror import lock_of
from ablate.remote.patience import backoff
from ablate.trial.node import Node
from ablate.trial.task import ProbeRequest, TrialEnd, TrialTask

LOOK_S = 2.0
"""How often is looked for a snapshot whose probe is done, which is uploaded at once."""


class ProbeNode(Node):
    """One trial's probe on this machine."""

    def __init__(self, task: TrialTask, uri: str, closed: threading.Event) -> None:
        assert task.probe is not None, "a trial's node is another"
        super().__init__(task, uri, closed)
        self._request: ProbeRequest = task.probe
        self._trial_id = task.spec.trial_id
        self._fetched: list[Path] = []
        self._patiently(self._fetch)

    def finish(self, end: TrialEnd) -> None:
        """Upload the rest; then what was fetched is deleted, and what was found, unless the launch reads it here."""
        self._patiently(self._send)
        if not is_held(lock_of(self._paths)):
            for path in (*self._fetched, *self._found()):
                path.unlink(missing_ok=True)

    def _fetch(self) -> None:
        """Fetch what the trial kept, anew: another node's attempt may have kept it since this one's did."""
        there = self._objects.names(self._paths.snapshots.name)
        plan = self._request.plan
        wanted = [self._paths.snapshot(self._trial_id, at) for at in self._request.at]
        wanted += [self._paths.directions(self._trial_id, at) for at in plan.at]  # a probe starts from the one before
        wanted += [self._paths.snapshot(other, at) for other in self._request.surface for at in plan.at]
        for path in dict.fromkeys(wanted):
            if self._name(path) in there:
                self._objects.fetch(self._name(path), path)
                self._fetched.append(path)

    def _keep_uploading(self, over: threading.Event) -> None:
        tries = 0
        while not over.wait(LOOK_S):
            try:
                self._send()
                tries = 0
            except (StoreError, OSError):  # the latter of this machine's disk
                over.wait(backoff(tries))
                tries += 1

    def _send(self) -> None:
        self._send_files(self._found())

    def _found(self) -> Iterator[Path]:
        """Yield what finished probes wrote: directions first, since who sees the lines takes the probe for done."""
        for at in self._request.at:
            lines = self._paths.probe_lines(self._trial_id, at)
            if lines.exists():
                yield self._paths.directions(self._trial_id, at)
                yield lines
