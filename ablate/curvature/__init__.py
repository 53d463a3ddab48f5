"""Curvature of a loss at a model's parameters: a Python API of its own, for any torch model and no grid.

from ablate.curvature import probe

found = probe(model, lambda model, batch: loss(model(batch[0]), batch[1]), [(inputs, targets)])
print(found.top.value, found.bottom.value, found.kind, found.evidence)
"""

from ablate.curvature.found import Curvature, Plan
from ablate.curvature.game import Game, Side, game
from ablate.curvature.hessian import Hessian
from ablate.curvature.objective import CurvatureError, Objective, objective
from ablate.curvature.probe import look, probe
from ablate.curvature.rows import game_rows, rows
from ablate.curvature.step import Step, escape_rate, step_of

__all__ = [
    "Curvature",
    "CurvatureError",
    "Game",
    "Hessian",
    "Objective",
    "Plan",
    "Side",
    "Step",
    "escape_rate",
    "game",
    "game_rows",
    "look",
    "objective",
    "probe",
    "rows",
    "step_of",
]
