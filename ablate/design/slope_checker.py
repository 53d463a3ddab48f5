"""Which arm's audit makes the slope check: one of those that run the same code, since in float64 it is one function.

Arms that differ in threads, precision or device compute the same gradient in float64, and each arm's own code is held
against a float64 reference in any case. So the check, a third of what an arm's first block costs, is made once for all
arms with equal settings and levels, and equal environment variables and determinism: these choose kernels for the
reference too, and code may read them.
"""

from __future__ import annotations

from collections.abc import Mapping

from ablate.design.reference_arm import reference_arm
from ablate.design.spec import GridSpec
from ablate.design.trial_spec import Scalar


def slope_checker(arm: str, factors: Mapping[str, Scalar], grid: GridSpec) -> str:
    """Return the arm that makes it for ``arm`` under ``factors``: the first with that code that is its own reference.

    Without such an arm it is the first with that code, in the grid's order.
    """
    key = code_key(arm, factors, grid)
    alike = [name for name in grid.arms if code_key(name, factors, grid) == key]
    if len(alike) > 1 and grid.cells is not None:
        (here,) = (cell for cell in grid.cells if cell.factors == factors)
        alike = [name for name in alike if name in here.arms]
    return min(alike, key=lambda name: reference_arm(name, grid) != name)


def code_key(arm: str, factors: Mapping[str, Scalar], grid: GridSpec) -> str:
    """Return what tells apart code that may compute another function in float64; values of 1 and 1.0 are two."""
    chosen = grid.arms[arm]
    settings = {**grid.settings, **chosen.settings, **factors}
    numerics = chosen.numerics
    return repr((sorted(settings.items()), sorted(numerics.env.items()), numerics.deterministic))
