"""A pattern of levels, as in ``when`` and ``exclude``: which cells of a study it is about."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from ablate.design.levels import match_level, unknown_level
from ablate.design.trial_spec import Scalar
from ablate.design.yaml_source import Loc, YamlSource
from ablate.errors import Problem, nearest

ARM = "arm"
"""Stands for the arm in a pattern, so no factor may be called that."""


@dataclass(frozen=True)
class Condition:
    """Holds where a cell has, of every name, one of the wanted levels; a factor that a cell lacks has none.

    Attributes:
        loc: where it stands in the file.
        wanted: factor, or ``arm`` -> the levels that will do.
    """

    loc: Loc
    wanted: Mapping[str, tuple[Scalar, ...]]

    def holds(self, arm: Collection[str], levels: Mapping[str, Scalar]) -> bool:
        """Say whether a cell is meant.

        Args:
            arm: the arm's name, and that of the arm it repeats: a control goes where its original goes.
            levels: the cell's level of each factor that it has.
        """
        return all(
            any(name in arm for name in allowed) if key == ARM else key in levels and levels[key] in allowed
            for key, allowed in self.wanted.items()
        )


def read_condition(
    written: Mapping[str, Any],
    loc: Loc,
    visible: Mapping[str, tuple[Scalar, ...] | None],
    arms: Collection[str],
    source: YamlSource,
) -> tuple[Condition, list[Problem]]:
    """Check a pattern.

    Args:
        written: name -> a level or a list of them.
        loc: where it stands.
        visible: the factors it may speak of -> their levels; None where those are wrong already.
        arms: the names of all arms.
        source: the file, for line numbers.

    Returns:
        The pattern's right part, and what is wrong with the rest.
    """
    problems: list[Problem] = []
    wanted: dict[str, tuple[Scalar, ...]] = {}
    for name, value in written.items():
        here = (*loc, name)
        if name != ARM and name not in visible:
            found = f'no factor is called "{name}" where this stands'
            names = (ARM, *visible)
            problems.append(Problem(source.where(here), found, ", ".join(names), nearest(name, names)))
            continue
        kept: list[Scalar] = []
        options = arms if name == ARM else visible[name]
        for place, item in _items(value, here):
            if place in source.refused or options is None:
                continue
            level = match_level(item, tuple(options))
            if level is not None:
                kept.append(level)
            else:
                problems.append(unknown_level(item, name, tuple(options), source.where(place)))
        if value == []:
            problems.append(Problem(source.where(here), "an empty list", "a level, or a list of levels"))
        wanted[name] = tuple(kept)
    return Condition(loc, wanted), problems


def _items(value: Any, loc: Loc) -> list[tuple[Loc, Any]]:
    return [((*loc, n), item) for n, item in enumerate(value)] if isinstance(value, list) else [(loc, value)]
