"""Settings in which the two arms of a contrast differ: what an arm computes is held to its reference arm's result."""

from __future__ import annotations

from ablate.design.spec import Contrast, GridSpec, level_text
from ablate.design.trial_spec import Scalar

BELONGS = (
    "an arm is held to the result under its reference arm's settings; what is meant to change it is a factor's level"
)


def own_settings(contrast: Contrast, grid: GridSpec) -> dict[str, tuple[Scalar | None, Scalar | None]]:
    """Return name -> (reference's, other's) of each setting that differs; a contrast of levels has none.

    A setting that only one of them overrides is None for an arm that leaves it as the study has it, if it has it.
    """
    if contrast.arms is None:
        return {}
    reference, other = ({**grid.settings, **grid.arms[name].settings} for name in contrast.arms)
    names = sorted({*reference, *other})
    pairs = {name: (reference.get(name), other.get(name)) for name in names}
    return {name: (mine, theirs) for name, (mine, theirs) in pairs.items() if mine != theirs}


def own_settings_words(contrast: Contrast, grid: GridSpec, numbers: bool = False) -> str:
    """Say in which settings the arms differ, and what that means; empty for none.

    Args:
        contrast: two arms, or levels.
        grid: the study.
        numbers: only settings that are numbers on a side: words and switches choose between ways to compute the same.
    """
    found = own_settings(contrast, grid)
    if numbers:
        found = {name: pair for name, pair in found.items() if any(_number(value) for value in pair)}
    if not found or contrast.arms is None:
        return ""
    reference, other = contrast.arms
    each = (
        f"{name} ({_text(mine)} in {reference}, {_text(theirs)} in {other})" for name, (mine, theirs) in found.items()
    )
    return f"the arms differ in the setting {', '.join(each)}: {BELONGS}"


def _number(value: Scalar | None) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(value: Scalar | None) -> str:
    return "the default" if value is None else level_text(value)
