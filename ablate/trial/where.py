"""Where a fault is: the first operation that departs, and a file that shows the fault alone.

An arm's step can be wrong in three ways, and each is looked for in its own place.

- A tensor was overwritten, or the gradient is not the slope of the loss: the arm's own code is wrong in every
  precision. The file computes the gradient twice, as it is and with every saved tensor copied, or against slopes.
- Its code in float64 is not the reference arm's: the first operation where the two part.
- Its code in float64 is right: something in the arm's precision is not. The first operation that parts from float64,
  and a file with that operation on the inputs that it had.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import torch

from ablate.audit.bounds import error_bound
from ablate.audit.distance import Distance
from ablate.audit.operation_log import Record, log_operations, recorded_call
from ablate.audit.operations import Departure, first_departure, first_module_departure, first_unlike
from ablate.audit.reproduction import Subject, write_gradient, write_operation
from ablate.audit.reproduction_settings import Differing, write_settings
from ablate.audit.roundoff import FLOAT64
from ablate.record.paths import StorePaths
from ablate.trial.audit_rows import Row
from ablate.trial.rerun import Rerun
from ablate.trial.session import Session
from ablate.trial.snapshot import Snapshot

CLEAR = 10.0
"""Times what one operation's rounding explains; the search compares sketches, which are good to a fifth."""

SKETCH = 1e-9
"""Relative difference that a sketch of 64 float64 sums can be trusted with, after sums of up to a million terms."""

GRADIENT_SHOWS = 1e-4
"""Relative error beyond which a gradient's reproduction exits with 1: a tenth of a fault of one in a thousand."""


class Where:
    """Looks for the fault of one audited batch.

    Args:
        session: the trial.
        at: what the batch started from.
        reference: the float64 stepper.
        rerun: makes a stepper of the arm's own code in a precision, without torch.compile or as the arm has it.
        reduction: the longest sum of the step.
        roundoff: unit roundoff of the arm's arithmetic.
    """

    def __init__(
        self,
        session: Session,
        at: Snapshot,
        reference: Rerun,
        rerun: Callable[[torch.dtype, bool], Rerun],
        reduction: int,
        roundoff: float,
    ) -> None:
        self._session = session
        self._at = at
        self._reference = reference
        self._rerun = rerun
        self._reduction = reduction
        self._roundoff = roundoff

    def of_a_gradient(self, wrong: Mapping[str, Sequence[str]], overwritten: bool) -> Row:
        """Return the row for a gradient that the arm's own code gets wrong, with the file that shows it.

        Args:
            wrong: player -> parameters whose gradient is not the slope.
            overwritten: whether the guard saw a saved tensor overwritten.
        """
        spec, player = self._session.spec, self._reference.stepper.players[0].name
        how = "a saved tensor is overwritten" if overwritten else "the gradient is not the slope of the loss"
        parameters = wrong.get(player, ())
        if not overwritten and not parameters:  # a later player's: it starts where the first one has stepped to
            return self._row("found", near="backward", detail=how)
        own = self._rerun(torch.float32, False)
        own.begin(self._at)
        subject = Subject(
            trainable=spec.trainable,
            settings=spec.settings,
            weights=own.stepper.model.state_dict(),
            batch=self._at.batch.tensors,
            index=self._at.batch.index.tolist(),
            carry=self._at.state["carries"][player],
            player=player,
        )
        title = f"{how}: {spec.trainable}, {', '.join(parameters[:3])}"
        path = write_gradient(
            self._file(),
            subject,
            "clone" if overwritten else "slope",
            GRADIENT_SHOWS,
            title,
            parameters=parameters[:3],
            setup=self._setup() if overwritten else (),
            search=self._session.task.search,
        )
        return self._row("found", near="backward", detail=how, file=path)

    def of_a_distance(self, fault: Distance) -> Row:
        """Return the row for a value that is too far from float64."""
        own_is_wrong = fault.own_error is not None and fault.own_bound is not None and fault.own_error > fault.own_bound
        dtype = torch.float64 if own_is_wrong else fault_dtype(fault)
        bound = CLEAR * error_bound(1.0, FLOAT64 if own_is_wrong else self._roundoff, self._reduction)
        arm = self._rerun(dtype, False)
        run, exact = partial(arm.step, self._at), partial(self._reference.step, self._at)
        found = first_departure(run, exact, max(bound, SKETCH), arm.stepper.model)
        if own_is_wrong and (found is None or found.kind != "operation"):
            unlike = first_unlike(log_operations(run), log_operations(exact))
            if unlike is not None:
                return self._other_code(*unlike, file=self._settings(fault))
        if found is None:
            if self._session.spec.numerics.compile:
                return self._of_compiled_code(dtype, exact, max(bound, SKETCH))
            return self._row("none", near="", detail="run again, no single operation departs")
        return self._row(
            "found",
            near=found.operation,
            source=found.source,
            detail=found.words,
            file=self._settings(fault) if own_is_wrong else self._operation(run, found, bound),
        )

    def _of_compiled_code(self, dtype: torch.dtype, exact: Callable[[], object], bound: float) -> Row:
        """Return the row for a fault that is gone where code runs as written: modules are all that can be compared."""
        why = "run as written, without torch.compile, no operation departs: the fault is in the compiled code"
        arm = self._rerun(dtype, True)
        run = partial(arm.step, self._at)
        found = first_module_departure(run, exact, bound, arm.stepper.model, self._reference.stepper.model)
        if found is None:
            detail = f"{why}; it is not there either where each module is compiled apart"
            return self._row("none", near="torch.compile", detail=detail)
        detail = f"{why}; with each module compiled apart, {found.words}"
        return self._row("found", near=found.operation, source=found.source, detail=detail)

    def _settings(self, fault: Distance) -> Path | None:
        """Write the file of a fault that the arm's settings make; None where they are the reference arm's.

        None also where the file could not start from where the arm was: of an update of a later batch, which the
        optimiser's state decides, or of a trainable with a state of its own.
        """
        spec, reference, at = self._session.spec, self._session.task.reference, self._at
        if reference is None or reference.settings == spec.settings or fault.own_bound is None:
            return None
        if at.state["trainable"] is not None or (at.batch_index > 0 and fault.quantity not in ("loss", "gradient")):
            return None
        found = Differing(
            trainable=spec.trainable,
            arm=spec.arm,
            settings=spec.settings,
            against=reference.arm,
            reference=reference.settings,
            weights=at.state["model"],
            batch=at.batch.tensors,
            index=at.batch.index.tolist(),
            carries=at.state["carries"],
            quantity=fault.quantity,
            name=fault.name,
        )
        title = f"the {fault.quantity} of {fault.name}: arm {spec.arm} against {reference.arm}, {spec.trainable}"
        bound = fault.own_bound / (fault.scale or 1.0)
        try:
            return write_settings(self._file(), found, bound, title, self._session.task.search)
        except ValueError:  # a setting that no text can stand for
            return None

    def _other_code(self, mine: Record, theirs: Record, file: Path | None) -> Row:
        """Return the row for code that runs other operations than the reference arm's, such as one term less."""
        arm = self._session.task.reference.arm if self._session.task.reference else "the reference"
        at = f" at {theirs.source}" if theirs.source else ""
        detail = f"the code of {arm} runs {theirs.operation}{at} where this arm's runs {mine.operation}"
        return self._row("found", near=mine.operation, source=theirs.source or mine.source, detail=detail, file=file)

    def _operation(self, run: Callable[[], object], found: Departure, bound: float) -> Path | None:
        """Write the file of one operation; None where it is right on its own inputs, or cannot be written down."""
        if found.kind != "operation" or found.by_module:
            return None
        call = recorded_call(run, found.position)
        if call is None:
            return None
        try:
            return write_operation(
                self._file(), call, bound, found.words, device=self._session.device.type, setup=self._setup()
            )
        except ValueError:  # an argument that no text can stand for
            return None

    def _setup(self) -> list[str]:
        """Return the lines that set the arm's threads and flags, where they are not torch's own on one thread."""
        numerics = self._session.spec.numerics
        lines = [f"torch.set_num_threads({numerics.threads})"]
        lines += [] if numerics.onednn else ["torch.backends.mkldnn.enabled = False"]
        return ["; ".join(lines)]

    def _file(self) -> Path:
        folder = StorePaths(Path(self._session.task.root)).reproductions
        folder.mkdir(parents=True, exist_ok=True)
        spec = self._session.spec
        return folder / f"{spec.arm}-{spec.trial_id}-batch{self._at.batch_index}.py"

    def _row(self, verdict: str, near: str, detail: str, source: str = "", file: Path | None = None) -> Row:
        row: Row = {
            "check": "departure",
            "verdict": verdict,
            "near": near,
            "source": source,
            "detail": detail,
        }
        return row | ({"role": os.path.relpath(file, self._session.task.cwd)} if file else {})


def fault_dtype(fault: Distance) -> torch.dtype:
    """Return the precision that a fault was seen in."""
    found: torch.dtype = getattr(torch, fault.dtype)
    return found
