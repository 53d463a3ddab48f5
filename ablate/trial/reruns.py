"""Which reruns a trial's audit makes: the reference arm's code in float64, the arm's own in any precision."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from ablate.audit.precision_seen import PrecisionSeen
from ablate.audit.replayed_draws import DrawLog
from ablate.audit.roundoff import FLOAT32, TF32, unit_roundoff
from ablate.design.trial_spec import Numerics
from ablate.trial.compiled import maybe_compiled
from ablate.trial.local_audit import ArmsOwn
from ablate.trial.memory_format import lay_out
from ablate.trial.numerics import DTYPES
from ablate.trial.rerun import Rerun
from ablate.trial.seen import Seen
from ablate.trial.session import Session
from ablate.trial.snapshot import Snapshot
from ablate.trial.step import Observer
from ablate.trial.trace import last_lines

CPU = torch.device("cpu")


@dataclass(frozen=True)
class ArmPrecision:
    """How coarse an arm's arithmetic is.

    Attributes:
        roundoff: unit roundoff of its coarsest operation.
        name: of that precision.
        where: what says so: the grid, or a line of code.
        of_the_code: how far from exact its own code is meant to be even in float64.
        seen: whether a step was looked at, and not only the grid.
        held_in: the type that its numbers are held in, which decides their range.
    """

    roundoff: float
    name: str
    where: str
    of_the_code: float = FLOAT32
    seen: bool = False
    held_in: torch.dtype = torch.float32


def declared_precision(numerics: Numerics) -> ArmPrecision:
    """Return what the grid says."""
    name = "tf32" if numerics.tf32 else numerics.precision
    return ArmPrecision(
        max(unit_roundoff(DTYPES[numerics.precision]), TF32 if numerics.tf32 else 0.0),
        name,
        f"declared: {name}",
        held_in=DTYPES[numerics.precision],
    )


class Reruns:
    """Makes them.

    Args:
        make: the trainable's class.
        session: the trial.

    Attributes:
        draws: the arm's draws from torch's global generator in the batch in hand; None if there were none.
        drew_otherwise: whether the arm, in a batch so far, drew what no rerun repeats: from a GPU's generator, or so
            that it left torch's elsewhere than its own code does when it is run as written (what the trainable compiles
            itself draws one number, and makes others of it).
        reference_arm: the arm whose settings the reference has.
        same_code: whether the reference is what ``own`` makes in float64, but for the copies of what autograd saves.
    """

    def __init__(self, make: Callable[..., Any], session: Session) -> None:
        self.draws: DrawLog | None = None
        self.drew_otherwise = False
        self.reference_arm = session.spec.arm
        self.same_code = False
        self._make = make
        self._session = session
        self._dtype = DTYPES[session.spec.numerics.precision]

    def own(self, dtype: torch.dtype, compiled: bool = False) -> Rerun:
        """Return the arm's own code, on its device and under its threads and flags.

        Without torch.compile, unless it is to be ``compiled`` where the arm is.
        """
        made = self._rerun(self._session.spec.settings, {}, dtype, reference=False, compiled=compiled)
        lay_out(made.stepper.model, self._session.spec.numerics.memory_format)
        return made

    def reference(self, at: Snapshot) -> tuple[Rerun, list[str]]:
        """Return the float64 stepper: the reference arm's, or the arm's own where that is another model.

        Returns:
            It, and what is to be said of it.
        """
        spec, reference, words = self._session.spec, self._session.task.reference, []
        if reference is not None:
            env = {name: reference.env.get(name) for name in {*spec.numerics.env, *reference.env}}
            try:
                made = self._rerun(reference.settings, env, torch.float64, reference=True)
                made.begin(at)
            except Exception as error:
                words = [f"arm {reference.arm}, since its settings make another model: {last_lines(error)}"]
            else:
                self.reference_arm = reference.arm
                alike = repr(sorted(reference.settings.items())) == repr(sorted(spec.settings.items()))
                self.same_code = alike and reference.env == spec.numerics.env and self._like_a_reference()
                return made, words
        self.same_code = self._like_a_reference()
        return self._rerun(spec.settings, {}, torch.float64, reference=True), words

    def _like_a_reference(self) -> bool:
        """Say whether the arm's own numerics differ from a reference's in nothing that float64 on a CPU would show."""
        plain = self._session.spec.numerics.memory_format == "contiguous"
        return plain and self._session.device == CPU and torch.get_num_threads() == 1

    def note_draws(self, at: Snapshot, seen: Seen, drew: bool, elsewhere: bool, *also: Observer) -> None:
        """Step a batch that drew once more as the arm did, and keep what it drew, for every rerun to draw alike.

        Args:
            at: what the batch started from.
            seen: what the arm's step gave.
            drew: whether it drew from torch's global generators.
            elsewhere: whether a GPU's was among them.
            also: who else looks on, and may end the step.
        """
        self.draws = None
        if drew:
            log, again = DrawLog(), self.own(self._dtype)
            again.step(at, ArmsOwn(again.stepper, seen), *also, inside=log)
            self.draws = log
            left_alike = log.left is None or torch.equal(log.left, torch.get_rng_state())
            self.drew_otherwise |= elsewhere or not left_alike

    def precision(self, at: Snapshot, seen: Seen, declared: ArmPrecision, *also: Observer) -> ArmPrecision:
        """Find the coarsest arithmetic in the arm's step, and in its own code in float64.

        Code may cast below the precision that the arm declares, and does so in float64 too unless it is autocast.
        """
        looking = {dtype: PrecisionSeen() for dtype in (self._dtype, torch.float64)}
        for dtype, mode in looking.items():
            again = self.own(dtype)
            again.step(at, ArmsOwn(again.stepper, seen), *also, inside=mode)
        found, code = looking[self._dtype], max(FLOAT32, looking[torch.float64].roundoff)
        if found.roundoff <= declared.roundoff:
            made = replace(declared, of_the_code=code, seen=True)
        else:
            made = ArmPrecision(found.roundoff, found.name, f"{found.name} at {found.where}", code, True, found.dtype)
        narrow = str(found.dtype).removeprefix("torch.")
        if found.narrow is None or narrow == made.name:
            return made
        both = f"{made.name} with {narrow}"
        return replace(made, name=both, where=f"{made.where}; {narrow} at {found.narrow}", held_in=found.dtype)

    def _rerun(self, settings: Any, env: Any, dtype: torch.dtype, reference: bool, compiled: bool = False) -> Rerun:
        device = CPU if reference else self._session.device
        numerics = self._session.spec.numerics if compiled else Numerics()
        made = Rerun(
            self._make,
            settings,
            env,
            dtype,
            device,
            reference,
            self._dtype,
            lambda loss: maybe_compiled(loss, numerics),
        )
        made.draws = self.draws
        return made
