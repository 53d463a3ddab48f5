"""Levels of a factor: one kind per factor, each level once, and how a level written elsewhere is matched to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ablate.design.spec import level_text
from ablate.design.trial_spec import Scalar
from ablate.design.validation import describe
from ablate.design.yaml_source import Loc, YamlSource
from ablate.errors import Problem, nearest

LARGEST = 2**63 - 1


def read_levels(
    levels: Sequence[Any], loc: Loc, source: YamlSource, repeats: bool = False
) -> tuple[tuple[Scalar, ...], list[Problem]]:
    """Read a list of levels, all of one kind; whole numbers beside numbers become numbers.

    Args:
        levels: the list as written.
        loc: where it stands.
        source: the file, for line numbers.
        repeats: a level may stand there more than once, as in a zip.

    Returns:
        The levels that are right, and what is wrong with the others.
    """
    problems = []
    kept: list[Scalar] = []
    for position, level in enumerate(levels):
        here = (*loc, position)
        if here in source.refused:
            continue
        if not isinstance(level, bool | int | float | str):
            allowed = "a number, a text or true/false"
            problems.append(Problem(source.where(here), f"found {describe(level)}", allowed))
        elif isinstance(level, int) and abs(level) > LARGEST:  # the store keeps levels in 64 bits
            advice = f"write it as a number: {float(level):.16e}" if abs(level) < 10**300 else ""
            problems.append(Problem(source.where(here), f"found {level}", f"at most {LARGEST}", advice=advice))
        elif kept and kind_of(level) != kind_of(kept[0]):
            found = f"found {describe(level)} beside {describe(kept[0])}"
            problems.append(Problem(source.where(here), found, "levels of one kind"))
        elif not repeats and match_level(level, kept) is not None:
            problems.append(Problem(source.where(here), f"the level {level_text(level)} stands there twice"))
        else:
            kept.append(level)
    if any(isinstance(level, float) for level in kept):
        return tuple(float(level) for level in kept), problems
    return tuple(kept), problems


def match_level(value: Any, levels: Sequence[Scalar]) -> Scalar | None:
    """Return the level that equals ``value`` and is of its kind; true is not 1, but 1 is 1.0."""
    return next((level for level in levels if level == value and kind_of(level) == kind_of(value)), None)


def unknown_level(value: Any, factor: str, levels: Sequence[Scalar], where: str) -> Problem:
    """Return the problem of a value that is no level of ``factor``."""
    texts = [level_text(level) for level in levels]
    close = nearest(value, texts) if isinstance(value, str) else ""
    return Problem(where, f"found {describe(value)}, no level of {factor}", ", ".join(texts), close)


def kind_of(value: Any) -> str:
    """Return the kind that all levels of a factor share."""
    if isinstance(value, bool):
        return "boolean"
    return "number" if isinstance(value, int | float) else type(value).__name__
