"""What the grid itself makes different between the sides of a contrast, so that rounding is not its cause."""

from __future__ import annotations

from ablate.design.spec import Contrast, GridSpec


def declared(contrast: Contrast, grid: GridSpec) -> str:
    """Return the declared difference in words; empty for two arms that should do the same.

    A control's perturbation is none: it is as small as rounding, and meant to be judged as such.

    Args:
        contrast: one of the grid's.
        grid: the study.
    """
    if contrast.arms is None:
        return "levels of a factor differ by design, and the gap is the factor's own effect"
    ulps = {name: grid.arms[name].numerics.gradient_noise for name in contrast.arms}
    if len(set(ulps.values())) == 1:
        return ""
    sizes = " and ".join(f"{size:,g} ulps in arm {name}" for name, size in ulps.items())
    return f"the grid adds noise to the gradients, {sizes}, and the gap is that noise's effect"
