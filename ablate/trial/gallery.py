"""Records artifacts after the batches that the grid's plan names; on all others it does nothing.

Per parameter, without the trainable doing anything: the norm and a histogram of its gradient as the optimiser was given
it, and a histogram of the weights after the step. Beside them what the trainable shows: a structured one by
``look(model, place)``, a function by ``ctx.artifact``. Images and arrays of a batch go into one file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch import nn

from ablate.errors import Problem
from ablate.record.artifact_file import write_arrays
from ablate.record.paths import StorePaths
from ablate.trial.artifact import Artifact, histogram, norm, shown
from ablate.trial.contract import TrainableError
from ablate.trial.protocol import Player
from ablate.trial.session import Session
from ablate.trial.undisturbed import undisturbed

MOST_BYTES = 32 * 2**20
"""Of all images and arrays of one trial and batch, before compression."""

MOST_PARAMETERS = 512
"""Of a model with more parameters (tensors), only the largest are recorded, so that a batch's rows stay below 1 MB."""


class Gallery:
    """The artifacts of one attempt at a trial.

    Attributes:
        planned: whether artifacts of any batch are wanted.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self.planned = bool(session.spec.artifacts)
        self._made: dict[str, Artifact] = {}
        self._names: dict[int, str] = {}

    @property
    def due(self) -> bool:
        """Whether artifacts of the batch in hand are wanted."""
        return self.planned and self._session.spec.artifacts.covers(self._session.batch_index)

    def show(self, name: str, value: Any) -> None:
        """Take an artifact of the batch in hand; a callable is called for it, without gradient and without a trace.

        Raises:
            TrainableError: on a name that was given already, or a value that cannot be recorded.
        """
        if not self.due:
            return
        session, where = self._session, f"batch {self._session.batch_index}"
        with session.uncounted():
            if callable(value):
                with undisturbed(session.model, session.draw, f"{where}, artifact {name}"):
                    value = value()
            self._put(shown(name, value, where), where)

    def gradients(self, player: Player) -> None:
        """Take a player's gradients, which its optimiser is about to use."""
        if not self.due or self._session.model is None:
            return
        names = self._named(self._session.model)
        with self._session.uncounted():
            for name, parameter in player.parameters.items():
                if id(parameter) in names or len(names) < MOST_PARAMETERS:
                    self._gradient(names.get(id(parameter), f"{player.name}.{name}"), parameter)

    def finish(self, look: Callable[[], Mapping[str, Any]] | None = None) -> None:
        """Write the artifacts of the batch that was just recorded.

        Args:
            look: the trainable's; its result is recorded too.

        Raises:
            TrainableError: ``look`` broke its contract, or there is too much.
            Diverged: a loss up to here was not finite; there is nothing to look at then.
            StoreError: if the disk is full or fails.
        """
        if not self.planned:
            return
        session, batch = self._session, self._session.batch_index - 1
        if not session.spec.artifacts.covers(batch):
            return
        session.flush()
        with session.uncounted():
            if session.model is not None:
                self._parameters(session.model)
            if look is not None:
                where = f"look() after batch {batch}"
                with undisturbed(session.model, session.draw, where):
                    found = look()
                if not isinstance(found, Mapping):
                    raise TrainableError(Problem(where, f"returned a {type(found).__name__}", "a dict of artifacts"))
                for name, value in found.items():
                    self._put(shown(name, value, where), where)
            self._write(batch)

    def _put(self, artifact: Artifact, where: str) -> None:
        if artifact.name in self._made:
            raise TrainableError(Problem(where, f"the artifact {artifact.name!r} was given twice", "once per batch"))
        self._made[artifact.name] = artifact

    def _named(self, model: nn.Module) -> dict[int, str]:
        if not self._names:
            named = sorted(model.named_parameters(), key=lambda pair: -pair[1].numel())[:MOST_PARAMETERS]
            self._names = {id(parameter): name for name, parameter in named}
        return self._names

    def _gradient(self, name: str, parameter: nn.Parameter) -> None:
        if parameter.grad is not None and f"gradient.{name}" not in self._made:
            gradient = parameter.grad.to_dense() if parameter.grad.is_sparse else parameter.grad
            for artifact in (norm(f"gradient_norm.{name}", gradient), histogram(f"gradient.{name}", gradient)):
                self._made[artifact.name] = artifact

    def _parameters(self, model: nn.Module) -> None:
        names = self._named(model)
        for parameter in model.parameters():
            if name := names.get(id(parameter)):
                self._gradient(name, parameter)  # a function trainable's, as its own loop left it
                self._made[f"weight.{name}"] = histogram(f"weight.{name}", parameter)

    def _write(self, batch: int) -> None:
        made, self._made = list(self._made.values()), {}
        session = self._session
        arrays = {artifact.name: artifact.array for artifact in made if artifact.array is not None}
        if (size := sum(array.nbytes for array in arrays.values())) > MOST_BYTES:
            largest = max(arrays, key=lambda name: arrays[name].nbytes)
            found = f"artifacts of {size / 2**20:.1f} MiB; the largest is {largest!r}, {arrays[largest].shape}"
            raise TrainableError(Problem(f"batch {batch}", found, f"{MOST_BYTES // 2**20} MiB a batch"))
        file = digest = None
        if arrays:
            root = Path(session.task.root)
            path = StorePaths(root).artifact_file(session.spec.trial_id, session.task.attempt, batch)
            file, digest = path.name, write_arrays(path, arrays)
        for one in made:
            in_file = {"file": file, "sha256": digest} if one.array is not None else {}
            columns = {name: value for name, value in vars(one).items() if name != "array" and value is not None}
            session.recorder.artifact(batch_index=batch, **columns, **in_file)
