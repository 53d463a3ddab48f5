"""Which contrasts a study makes: the grid's own, then each control arm against the arm it repeats."""

from __future__ import annotations

from typing import Literal

from ablate.design.spec import Arm, Contrast, GridSpec

Control = Literal["A/A", "one-ulp", "permute-rows"]
KINDS: tuple[Control, ...] = ("one-ulp", "permute-rows", "A/A")
"""From the one that says most of a contrast in which two of them meet."""


def arm_control(arm: Arm) -> Control | None:
    """Return which kind of control an arm is; None for an arm under comparison."""
    if not arm.control:
        return None
    return arm.numerics.perturb or "A/A"


def contrast_control(contrast: Contrast, grid: GridSpec) -> Control | None:
    """Return which kind of control contrast this is: that of a control arm in it; None without one."""
    kinds = {arm_control(grid.arms[name]) for name in contrast.arms or ()}
    return next((kind for kind in KINDS if kind in kinds), None)


def all_contrasts(grid: GridSpec) -> tuple[Contrast, ...]:
    """Return the grid's contrasts, then those of its controls that it does not ask for anyway."""
    asked = {contrast.arms for contrast in grid.contrasts if not contrast.where}
    pairs = [(arm.repeat, name) for name, arm in grid.arms.items() if arm.repeat is not None]
    return grid.contrasts + tuple(Contrast(arms=arms) for arms in pairs if arms not in asked)
