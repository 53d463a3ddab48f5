"""Which arm an arm is held against when it is audited: the one whose mathematics it is meant to share."""

from __future__ import annotations

from ablate.design.spec import GridSpec


def reference_arm(name: str, grid: GridSpec) -> str:
    """Return the reference of the first contrast of arms in which ``name`` is the other side.

    A control follows the arm that it repeats. An arm that is nowhere the other side is its own reference.
    """
    original = grid.arms[name].repeat or name
    for contrast in grid.contrasts:
        if contrast.arms is not None and contrast.arms[1] == original:
            return contrast.arms[0]
    return original
