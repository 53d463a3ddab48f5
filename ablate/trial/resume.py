"""Goes on where an earlier attempt at the trial stopped, and leaves checkpoints for a later one."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from ablate.design.trial_spec import CheckpointPlan
from ablate.record.paths import StorePaths
from ablate.trial import checkpoint
from ablate.trial.checkpoint import Checkpoint
from ablate.trial.moved import continued, moved_from
from ablate.trial.notice import NOTICE, ToldToLeave
from ablate.trial.session import Session


class Resume:
    """One attempt's view of its trial's checkpoints.

    Args:
        session: the attempt.
        code: hash of the trainable's source.
        machine: the one it runs on, in words.

    Attributes:
        code: hash of the trainable's source.
        batches: how many batches were taken over from an earlier attempt; 0 if none.
        moved_from: which other machines computed those, in words; None if none did.
    """

    def __init__(self, session: Session, code: str, machine: str) -> None:
        self._session = session
        self._paths = StorePaths(Path(session.task.root))
        self._path = self._paths.checkpoint(session.spec.trial_id)
        self.code = code
        self._code = f"{code} torch {torch.__version__}"
        self._found = found_by_first(session, self._path, self._code)
        self._saved_batches = self.batches = self._found.batches if self._found else 0
        self._saved_at = time.monotonic()
        self._machine = machine
        self._earlier = list(self._found.machines) if self._found else []
        self.moved_from = moved_from(self._earlier, machine)
        self._passed = False
        self._planned = session.spec.checkpoint != CheckpointPlan()  # the default: never

    def take_over(self) -> None:
        """Record the earlier attempt's batches up to its checkpoint as this one's own."""
        if self._found:
            self._session.recorder.take_over(self._found.attempt, self._found.batches)
            self._session.go_to(self._found.batches)
            self._session.chain.go_on_from(self._found.order)

    def restore(self) -> Mapping[str, Any] | None:
        """Put streams and generators where they stood and return the loop's own state; None at a fresh start."""
        if not self._found:
            return None
        checkpoint.restore_streams(self._session.draw, self._found.streams)
        checkpoint.restore_streams(self._session.declared, self._found.declared)
        checkpoint.restore_generators(self._found.generators)
        return self._found.state

    def offer(self, collect: Callable[[], Mapping[str, Any]]) -> None:
        """Save, if the plan says so now or the process was told to leave; called between batches.

        Raises:
            StoreError: if the disk is full or fails.
            ToldToLeave: once that is done, if the process was told to.
        """
        session, batches = self._session, self._session.batch_index
        if not (self._planned or NOTICE.given or session.ranks):
            return
        if batches == session.spec.batches:
            return  # so little is left that it is done rather than moved
        since = time.monotonic() - self._saved_at
        fresh = batches - self._saved_batches
        if session.task.follows:  # process 0 makes the checkpoint
            if session.ranks and session.ranks.told:
                raise ToldToLeave(f"after batch {batches - 1}, together with the trial's other workers")
            return
        # with several workers all leave after one batch, whichever was told
        if session.ranks.told if session.ranks else NOTICE.given:
            if fresh:
                self._save(collect)
            raise ToldToLeave(f"after batch {batches - 1}; its checkpoint is made, so it goes on from there")
        if session.spec.checkpoint.due(fresh, since):
            self._save(collect)

    def pass_by(self) -> None:
        """End a function's trial that was told to leave and has trained a whole batch since without an ``offer``.

        Raises:
            ToldToLeave: then, without a checkpoint.
        """
        if self._passed:
            self._session.flush()
            left = f"after batch {self._session.batch_index - 1}; its loop calls no ctx.checkpoint"
            if self._saved_batches:
                raise ToldToLeave(f"{left} any more, so it goes on from the one after {self._saved_batches} batches")
            raise ToldToLeave(f"{left}, so it begins again")
        self._passed = NOTICE.given

    def _save(self, collect: Callable[[], Mapping[str, Any]]) -> None:
        session, batches = self._session, self._session.batch_index
        session.flush()  # its rows are counted on
        session.recorder.keep_for_resume()
        made = Checkpoint(
            attempt=session.task.attempt,
            batches=batches,
            code=self._code,
            order=session.chain.digest,
            streams=checkpoint.stream_states(session.draw),
            declared=checkpoint.stream_states(session.declared),
            generators=checkpoint.global_generators(),
            state=collect(),
            machines=continued(self._earlier, self._machine, batches),
        )
        checkpoint.save(self._path, made)
        self._saved_batches, self._saved_at = batches, time.monotonic()

    def complete(self) -> None:
        """Delete the checkpoint: the trial is acknowledged as complete."""
        checkpoint.discard(self._paths, self._session.spec.trial_id)


def found_by_first(session: Session, path: Path, code: str) -> Checkpoint | None:
    """Return the checkpoint to go on from; of several workers only the first looks, and hands it to the others."""
    if session.ranks is None:
        return checkpoint.load(path, code)
    found = None if session.task.follows else checkpoint.load(path, code)
    given = session.ranks.from_first(checkpoint.packed(found) if found else b"")
    return checkpoint.unpacked(given) if given else None
