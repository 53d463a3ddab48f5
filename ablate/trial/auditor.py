"""Holds a trial's first batches against float64 while it trains, and records how far each number is from it.

Around each audited batch: everything it starts from is copied before, what it gave is copied while it is stepped, and
after it has been recorded the same batch is stepped again beside the training, which is not touched: losses are bit for
bit those of a trial without an audit.

- *Continuity*: the state that a batch starts from is the one that the last batch left, bit for bit.
- *Local*: in float64 from the arm's own state, with the reference arm's settings (``Rerun``). Compared are the loss,
  each parameter's gradient as ``after_backward`` left it, and each parameter's update, given the arm's own gradient.
- *Own*: the arm's own code in float64, under its own threads and flags. Rounding vanishes there, a fault does not.
- *Free*: float64 from the first batch on, each step from its own result; compared is the loss.
- *Slope*: whether the gradient of the arm's own code is the slope of its loss (``ablate.audit.slope``).

Of an arm with several workers the first one audits: the loss, gradients and update that all made together are held
against one process's on the whole batch.

A trainable that cannot be run a second time, or not in float64, trains on; the record says what was not seen.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from ablate.audit.distance import Distance
from ablate.audit.replayed_draws import DrawLog
from ablate.errors import AblateError
from ablate.trial import checkpoint
from ablate.trial.audit_rows import (
    Row,
    distance_rows,
    draw_state_rows,
    inputs_row,
    precision_row,
    slope_rows,
    unseen_row,
)
from ablate.trial.continuity import Continuity
from ablate.trial.diverged import EndsAt, ended_at, judge_ended
from ablate.trial.exchange import Kept, given, stored_batches
from ablate.trial.free_run import Begun, FreeRun
from ablate.trial.local_audit import ArmsOwn, LocalAudit, values
from ablate.trial.protocol import Batch
from ablate.trial.rerun import Rerun
from ablate.trial.reruns import Reruns, declared_precision
from ablate.trial.seen import Seen
from ablate.trial.session import Session
from ablate.trial.slope_audit import SlopeAudit
from ablate.trial.snapshot import Snapshot, batch_of, snapshot
from ablate.trial.step import Observer, Stepper
from ablate.trial.trace import last_lines
from ablate.trial.where import Where
from ablate.trial.workers import together


class Auditor:
    """The audit of one trial.

    Args:
        make: the trainable's class.
        stepper: the one that trains; it is read only.
        session: gives the plan and takes the rows.

    Attributes:
        last: the last batch that is audited; -1 if none is.
    """

    def __init__(self, make: Callable[..., Any], stepper: Stepper, session: Session) -> None:
        self._stepper = stepper
        self._session = session
        self._reruns = Reruns(make, session)
        self._precision = declared_precision(session.spec.numerics)
        self._continuity = Continuity()
        self._in_hand: tuple[Snapshot, Seen] | None = None
        self._row: list[tuple[Snapshot, Seen]] = []
        self._reference: Rerun | None = None
        self._begun: Begun | None = None
        self._reduction = 0
        self._given_up = False
        plan = session.spec.audit
        self.last = min(max((plan.first - 1, *plan.at)), session.spec.batches - 1)
        self._kept = Kept(Path(session.task.kept) if session.task.kept else None, session.task.weights)
        self._inputs_differ: list[str] = []
        self._wrong_slopes: dict[str, list[str]] = {}
        self._any_drew = False

    def feed(self, own: Iterator[Batch]) -> Iterator[Batch]:
        """Yield the trainable's batches, or those of a file from elsewhere in their place; keep audited ones."""
        inputs = self._session.task.inputs
        source = given(stored_batches(Path(inputs)), own, self._inputs_differ) if inputs else own
        for number, batch in enumerate(itertools.islice(source, self.last + 1)):
            if self._session.spec.audit.covers(number):
                self._kept.batch(number, batch)
            yield batch
        yield from source

    def before(self, batch: Batch) -> list[Observer]:
        """Copy what the batch in hand starts from, if it is audited; return who must look on."""
        session = self._session
        self._in_hand = None
        if not session.spec.audit.covers(session.batch_index):
            return []
        with session.uncounted():
            if row := self._continuity.enter(self._stepper, session.batch_index):
                self._record(session.batch_index, [row])
            seen = Seen(self._stepper)
            self._in_hand = snapshot(self._stepper, batch, session.batch_index), seen
        return [seen]

    def after(self) -> None:
        """Audit the batch that was just recorded. What the trainable raises when it is run again becomes a row."""
        if self._in_hand is None:
            return
        (at, seen), self._in_hand = self._in_hand, None
        with self._session.uncounted():
            if self._session.spec.audit.covers(at.batch_index + 1):
                self._continuity.leave(self._stepper, at.batch_index)
            drew, elsewhere = _drew(at)
            self._record(at.batch_index, draw_state_rows(drew, at.generators, checkpoint.global_generators()))
            if seen.complete and not self._given_up:
                try:
                    self._audit(at, seen, drew, elsewhere)
                except AblateError:
                    raise
                except Exception as error:
                    self._given_up = True
                    words = f"float64: it trains, but could not be run a second time beside that: {last_lines(error)}"
                    self._record(at.batch_index, [unseen_row(words)])
            if at.batch_index == self.last:
                self._kept.write()
                self._record(at.batch_index, map(inputs_row, self._inputs_differ))
            if at.batch_index == self.last or self._given_up:  # the rest of the trial needs none of it
                self._row.clear()
                self._reference = self._reruns.draws = self._begun = None

    def diverged(self) -> None:
        """Hold the batch that was just recorded against float64 if the trial ends there: its loss is not finite."""
        if self._in_hand is None:
            return
        (at, seen), self._in_hand = self._in_hand, None
        name = ended_at(seen)
        if name is None or self._given_up:  # on a GPU the loss of an earlier batch may have been read
            return
        with self._session.uncounted():
            drew, elsewhere = _drew(at)
            rows = [*draw_state_rows(drew, at.generators, checkpoint.global_generators())]
            try:
                self._reruns.note_draws(at, seen, drew, elsewhere, EndsAt(name))
                reference = self._reference or self._reruns.reference(at)[0]
                reference.draws = self._reruns.draws
                found = self._reruns.precision(at, seen, self._precision, EndsAt(name))
                judged = judge_ended(at, seen, reference, found, name)
                judged = _drawn(judged, elsewhere) if drew else judged
                rows += distance_rows([judged], self._reruns.reference_arm, every=True)
                rows.append(precision_row(found.roundoff, found.name, found.where))
            except AblateError:
                raise
            except Exception as error:
                rows.append(unseen_row(f"float64: the loss could not be computed a second time: {last_lines(error)}"))
            self._record(at.batch_index, rows)

    def _audit(self, at: Snapshot, seen: Seen, drew: bool, elsewhere: bool) -> None:
        first = self._reference is None
        self._reruns.note_draws(at, seen, drew, elsewhere)
        if self._reference is None:
            self._reference, unlike = self._reruns.reference(at)
            self._record(at.batch_index, map(unseen_row, unlike))
        self._reference.draws = self._reruns.draws
        judges_own = first or drew
        overwritten = self._session.watches.overwritten(at.batch_index)  # then the copies make a difference
        shared = judges_own and not drew and not overwritten and self._reruns.same_code
        slope = self._slope(self._reference, at) if shared else None
        local = LocalAudit(at, seen, self._reference, self._reduction, same_code=shared, slope=slope)
        self._reduction = local.reduction
        if local.is_own_code:
            self._note_slope(at, slope)
            local.hold_against(local.reference)
        elif judges_own:
            local.hold_against(self._own_code(at, seen))
        # also where a fault looks clear: code that casts to bfloat16 does so in float64, and is as far off
        if not self._precision.seen and local.exceeds(self._precision.roundoff):
            self._precision = self._reruns.precision(at, seen, self._precision)
        precision = self._precision
        judged = local.distances(precision.roundoff, precision.of_the_code, precision.held_in)
        distances = [_drawn(one, elsewhere) if drew else one for one in judged]
        if first:
            self._kept.values(local.values, dict(values(local.reference)), distances)
        every = first and self._session.task.audit_whole
        self._record(at.batch_index, distance_rows(distances, self._reruns.reference_arm, every))
        if every:
            self._where(at, distances)
        self._given_up = any(one.verdict == "bug" for one in distances)  # what follows, follows from it
        self._free(at, seen, drew, local)
        if first:
            seen_in = self._precision
            where = seen_in.where + together(self._session.spec.numerics.workers)
            self._record(at.batch_index, [precision_row(seen_in.roundoff, seen_in.name, where)])

    def _own_code(self, at: Snapshot, seen: Seen) -> Seen:
        """Run the arm's own code in float64, and hold its gradient against its slope."""
        own = self._reruns.own(torch.float64)
        slope = self._slope(own, at)
        looking: list[Observer] = [slope] if slope else []
        result = own.step(at, *looking, ArmsOwn(own.stepper, seen), first=slope.begin if slope else None)
        self._note_slope(at, slope)
        return result

    def _slope(self, own: Rerun, at: Snapshot) -> SlopeAudit | None:
        """Return the slope check of the batch that is about to be stepped, where there is one."""
        if not self._session.task.audit_slope or at.batch_index != 0:
            return None
        named = self._session.watches.overwritten(at.batch_index)
        return SlopeAudit(own.stepper, batch_of(at, torch.float64, own.device), search=not named)

    def _note_slope(self, at: Snapshot, slope: SlopeAudit | None) -> None:
        if slope is not None:
            self._record(at.batch_index, slope_rows(slope.results, slope.stopped, slope.behind))
            self._wrong_slopes = {player: [bug.name for bug in found.bugs] for player, found in slope.results.items()}

    def _where(self, at: Snapshot, distances: Sequence[Distance]) -> None:
        """Look for the place of a fault, if there is one; what cannot be found out is no reason to stop."""
        faults = [one for one in distances if one.verdict == "bug"]
        overwritten = self._session.watches.overwritten(at.batch_index)
        wrong = any(self._wrong_slopes.values())
        if self._reference is None or not (faults or overwritten or wrong):
            return
        where = Where(self._session, at, self._reference, self._reruns.own, self._reduction, self._precision.roundoff)
        try:
            if overwritten or wrong:
                row = where.of_a_gradient(self._wrong_slopes, overwritten)
            else:
                row = where.of_a_distance(max(faults, key=lambda one: one.error / max(one.bound, 1e-300)))
        except Exception as error:
            row = unseen_row(f"where the fault is: looking for it failed: {last_lines(error)}")
        self._record(at.batch_index, [row])

    def _free(self, at: Snapshot, seen: Seen, drew: bool, local: LocalAudit) -> None:
        """Keep the first batches until they are all there, then hold their losses against a float64 run in a row."""
        spec = self._session.spec
        if not self._session.task.audit_whole or self._given_up or spec.numerics.gradient_noise:
            return
        if at.batch_index != len(self._row) or at.batch_index >= spec.audit.first:
            return
        if at.batch_index == 0 and not drew:
            self._begun = Begun.of(local, self._stepper.trainable)
        self._any_drew = self._any_drew or drew
        self._row.append((at, seen))
        if len(self._row) == min(spec.audit.first, spec.batches) and len(self._row) > 1 and self._reference:
            self._reference.draws = DrawLog() if self._any_drew else None  # an empty log: draws in the arm's type
            ats, arms = zip(*self._row, strict=True)
            run = FreeRun(ats, arms, self._reference, self._precision.held_in, self._begun)
            for batch, distance in run.distances(self._precision.roundoff, self._reduction):
                found = _drawn(distance, self._reruns.drew_otherwise)
                self._record(batch, distance_rows([found], self._reruns.reference_arm, every=True, check="free"))
            self._row.clear()  # a batch that is audited later may be far off
            self._begun = None

    def _record(self, batch_index: int, rows: Iterable[Row]) -> None:
        for row in rows:
            known = {name: value for name, value in row.items() if value is not None}
            self._session.recorder.audit(batch_index=batch_index, **known)


def _drew(at: Snapshot) -> tuple[bool, bool]:
    """Return whether the batch drew from torch's generators, and whether from a GPU's, which no rerun repeats."""
    now = checkpoint.global_generators()
    pairs = zip(at.generators["cuda"], now["cuda"], strict=False)
    elsewhere = any(not torch.equal(before, after) for before, after in pairs)
    return elsewhere or not torch.equal(at.generators["torch"], now["torch"]), elsewhere


def _drawn(one: Distance, elsewhere: bool) -> Distance:
    """Call a difference CONFOUNDED where the batch drew from torch's own generator and the code is right in float64.

    The generator stood at the same place, but a compiled loss draws other numbers from there, and what they do cannot
    be told from a fault. What a GPU drew no run on the CPU repeats, so there the arm's own code is not asked.
    """
    right = one.own_error is not None and one.own_bound is not None and one.own_error <= one.own_bound
    if one.verdict != "bug" or not (elsewhere or right):
        return one
    words = (
        "drew from torch's global generator, which gave other numbers here than in float64; take draws from ctx.draw"
    )
    return replace(one, verdict="confounded", detail=words)
