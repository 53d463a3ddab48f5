"""Weights kept for probes of the curvature, with what the optimiser's next step depends on.

Not a checkpoint: no trial goes on from it, so carries, streams and the data's position are not in it. It is looked at
in another process once the trial has ended. Keeping it draws nothing and changes nothing (tested, bit for bit).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from ablate.errors import AblateError, Problem
from ablate.record.disk import store_io
from ablate.record.paths import StorePaths
from ablate.trial.session import Session
from ablate.trial.step import Stepper
from ablate.trial.tensor_file import TensorFileError, read_tensors, write_tensors


class KeptWeightsError(AblateError):
    """Kept weights that cannot be used: damaged, or of other code."""

    exit_code = 2


@dataclass(frozen=True)
class KeptWeights:
    """What a trial kept after some batches.

    Attributes:
        batches: how many it had trained on.
        code: hash of the trainable's source.
        model: parameters and buffers in the arm's precision, on the CPU.
        optimisers: the state of each player's optimiser.
        before: parameters before the last of those batches; None at 0.
        trainable: what the trainable itself keeps between batches; None if it keeps nothing.
    """

    batches: int
    code: str
    model: dict[str, Tensor]
    optimisers: dict[str, Any]
    before: dict[str, Tensor] | None
    trainable: Any


class Keeper:
    """Keeps a trial's weights after the batches that its plan names.

    Args:
        session: the trial.
        stepper: its training, where the next batch begins.
        code: hash of the trainable's source.
        resumed: how many batches an earlier attempt made, from which this one goes on. What was kept after more is let
            go: this attempt makes those batches anew, perhaps with other code.

    Attributes:
        planned: whether weights are kept after any batch.
    """

    def __init__(self, session: Session, stepper: Stepper, code: str, resumed: int) -> None:
        self._session = session
        self._stepper = stepper
        self._code = code
        self._plan = session.spec.probes
        self.planned = bool(self._plan)
        self._paths = StorePaths(Path(session.task.root))
        self._before: dict[str, Tensor] | None = None
        if self.planned:
            discard_after(self._paths, session.spec.trial_id, resumed if resumed else -1)
            if not resumed:
                self.after()

    def before(self) -> None:
        """Copy the parameters if they are kept after the batch in hand."""
        if self._plan.covers(self._session.batch_index + 1):
            with self._session.uncounted():
                named = self._stepper.model.named_parameters()
                self._before = {name: parameter.detach().clone() for name, parameter in named}

    def after(self) -> None:
        """Keep the weights, if the plan names the number of batches recorded so far.

        Raises:
            StoreError: if the disk is full or fails.
            Diverged: if a batch so far has a loss that is not finite; then nothing is kept.
        """
        batches = self._session.batch_index
        if not self._plan.covers(batches):
            return
        self._session.flush()  # a loss still on the device may be no number: such a batch has no weights to look at
        state = self._stepper.collect()
        kept = KeptWeights(batches, self._code, state["model"], state["optimisers"], self._before, state["trainable"])
        write_tensors(self._paths.snapshot(self._session.spec.trial_id, batches), vars(kept))
        self._before = None


def discard_after(paths: StorePaths, trial_id: str, batches: int) -> None:
    """Delete what a trial kept after more batches than these, and the directions found there."""
    for path in paths.snapshots.glob(f"{trial_id}-*.pt"):
        number = path.name.removeprefix(f"{trial_id}-").partition(".")[0]
        if int(number) > batches:
            with store_io(path):
                path.unlink(missing_ok=True)


def load(path: Path) -> KeptWeights | None:
    """Read kept weights onto the CPU; None if there are none.

    Raises:
        KeptWeightsError: the file is damaged, or holds more than tensors and plain values.
    """
    if not path.exists():
        return None
    try:
        return KeptWeights(**read_tensors(path))
    except (TensorFileError, TypeError) as error:
        advice = (
            "Delete it: its probe is then left out. If every one is like this, an optimiser or state() keeps more than "
            "plain values and tensors."
        )
        found = str(error) if isinstance(error, TensorFileError) else f"{path}: cannot be read: {error}"
        raise KeptWeightsError(Problem("kept weights", found, "", "", advice)) from None
