"""A trainable with the weights that a trial kept, and each player's loss as a function of that player's parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from ablate.audit.fresh import fresh_copies
from ablate.curvature import CurvatureError, Objective, objective
from ablate.curvature.game import Game, Side, game
from ablate.design.trial_spec import CurvaturePlan, TrialSpec
from ablate.errors import Problem
from ablate.trial.contract import checked_loss, checked_model
from ablate.trial.kept_weights import KeptWeights, KeptWeightsError
from ablate.trial.numerics import DTYPES
from ablate.trial.probe_set import ProbeSet
from ablate.trial.protocol import Batch, Player
from ablate.trial.step import Stepper
from ablate.trial.weights import seed_global_generators


class ProbedModel:
    """A trainable at one point of a trial, in a probe's precision, ready to be looked at.

    Args:
        make: the trainable's class.
        spec: the trial.
        plan: how it is looked at.
        data: what the loss is computed on.

    Attributes:
        players: in the order they are stepped.
    """

    def __init__(self, make: Callable[..., Any], spec: TrialSpec, plan: CurvaturePlan, data: ProbeSet) -> None:
        self._plan = plan
        self._data = data
        self._batches = [(batch.index, dict(batch.tensors)) for batch in data.batches]
        seed_global_generators(spec.study, spec.block)
        with self._precision():
            trainable = make(**spec.settings)
            model = checked_model(trainable.build()).to(device=plan.device, dtype=DTYPES[plan.dtype])
            self._stepper = Stepper(trainable, model)
        if plan.mode == "eval":
            model.eval()  # for train the modes are those that build() left, as in the trial

    @property
    def dtype(self) -> str:
        """The probe's precision."""
        return self._plan.dtype

    @property
    def players(self) -> list[Player]:
        """The trainable's players."""
        return self._stepper.players

    def go_to(self, kept: KeptWeights) -> None:
        """Take over what a trial kept.

        Raises:
            KeptWeightsError: it is of another model.
        """
        carries = {player.name: None for player in self.players}
        try:
            self._stepper.restore(
                {
                    "model": kept.model,
                    "optimisers": kept.optimisers,
                    "carries": carries,
                    "trainable": kept.trainable,
                }
            )
        except (KeyError, RuntimeError, ValueError) as error:
            found = f"do not fit the model that build() makes: {error}"
            raise KeptWeightsError(Problem("the weights", found, "", "", "Build it from the settings alone.")) from None

    def objective(self, player: Player) -> Objective:
        """Return a player's loss on the probe set as a function of the parameters that its optimiser steps.

        The loss begins without a carry, as on a trial's first batch.

        Raises:
            CurvatureError: the optimiser steps no parameter of the model.
        """
        side = self.side(player)
        return objective(
            self._stepper.model,
            side.loss,
            self._batches,
            DTYPES[self._plan.dtype],
            sizes=self._data.sizes,
            only=side.parameters,
        )

    def game(self) -> Game:
        """Look at the Jacobian of all players' game.

        Raises:
            CurvatureError: a parameter is stepped by two optimisers, or as of ``objective``.
        """
        return game(
            self._stepper.model,
            [self.side(player) for player in self.players],
            self._batches,
            count=self._plan.k,
            most_steps=self._plan.steps,
            dtype=DTYPES[self._plan.dtype],
            sizes=self._data.sizes,
            tick=lambda products: print(f"product {products} with the game's Jacobian", flush=True),
        )

    def side(self, player: Player) -> Side:
        """Return the names, in the model, of the parameters that a player's optimiser steps, and its loss.

        Autograd gets copies of what it saves: code that overwrites a buffer before backward has another gradient than
        its loss, and what is looked at is the loss.

        Raises:
            CurvatureError: the optimiser steps no parameter of the model.
        """

        def loss(model: nn.Module, batch: Any) -> Tensor:
            index, tensors = batch
            with self._precision(), fresh_copies():
                given = (player.loss or self._stepper.trainable.loss)(model, Batch(index, tensors), None)
            return checked_loss(given, player)[0].reshape(())

        own = {id(p) for group in player.optimiser.param_groups for p in group["params"]}
        named = self._stepper.model.named_parameters()
        names = [name for name, p in named if id(p) in own and p.requires_grad]
        if not names:
            found = f"the optimiser of player {player.name!r} steps no parameter of the model that requires a gradient"
            raise CurvatureError(
                Problem("probe", found, "an optimiser with parameters of the model that build() makes")
            )
        return Side(player.name, names, loss)

    def parameters(self, names: list[str]) -> dict[str, Tensor]:
        """Return the optimisers' own tensors of these names."""
        named = dict(self._stepper.model.named_parameters())
        return {name: named[name] for name in names}

    @contextmanager
    def _precision(self) -> Iterator[None]:
        """Let tensors that the user's code makes without naming a type have the probe's."""
        before = torch.get_default_dtype()
        torch.set_default_dtype(DTYPES[self._plan.dtype])
        try:
            yield
        finally:
            torch.set_default_dtype(before)


def flat(tensors: Mapping[str, Tensor], names: list[str]) -> Tensor:
    """Return named tensors as one float64 vector (n,) on the CPU, in the order of ``names``."""
    return torch.cat([tensors[name].detach().to(device="cpu", dtype=torch.float64).reshape(-1) for name in names])
