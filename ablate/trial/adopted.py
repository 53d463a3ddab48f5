"""Makes a model the arm's: the block's initial weights, then precision, perturbation, device and layout, in place."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from ablate.errors import Problem
from ablate.record.paths import StorePaths
from ablate.trial.draw import Draw
from ablate.trial.effect import ArmNotInEffect
from ablate.trial.fingerprint import model_hash, one_ulp
from ablate.trial.memory_format import lay_out
from ablate.trial.numerics import DTYPES
from ablate.trial.ranks import Ranks
from ablate.trial.task import TrialTask
from ablate.trial.weights import restore


def adopt(model: nn.Module, task: TrialTask, ranks: Ranks | None) -> dict[str, str | None]:
    """Change ``model`` to what the arm asks for. Weights are hashed and perturbed on the CPU, then moved.

    Returns:
        dict[str, str | None]: ``initial_hash``, and ``perturbation_hash`` of weights that the arm moves.

    Raises:
        ArmNotInEffect: a parameter did not take the arm's precision or layout.
    """
    spec = task.spec
    numerics = spec.numerics
    if task.weights is not None and not task.follows:
        restore(model, StorePaths(Path(task.root)).initial_weights(task.weights))
    columns: dict[str, str | None] = {"initial_hash": model_hash(model), "perturbation_hash": None}
    precision = DTYPES[numerics.precision]
    model.to(precision)
    if numerics.perturb == "one-ulp":
        one_ulp(sorted(model.named_parameters()), Draw(spec.study, spec.block))
        columns["perturbation_hash"] = model_hash(model)
    wrong = [name for name, p in model.named_parameters() if p.is_floating_point() and p.dtype != precision]
    if wrong:
        raise ArmNotInEffect(Problem("precision", f"asked for {precision}, parameter {wrong[0]!r} has another"))
    model.to(numerics.device)
    if ranks is not None:  # a follower may be where the store is not
        ranks.start_alike(model)
    lay_out(model, numerics.memory_format)
    return columns
