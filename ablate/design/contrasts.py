"""Which comparisons a study makes: those written in its grid, checked, or the default ones."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ablate.design.grid_file import ALLOWED, ContrastFile
from ablate.design.levels import match_level, unknown_level
from ablate.design.spec import Arm, Contrast
from ablate.design.trial_spec import Scalar
from ablate.design.yaml_source import Loc, YamlSource
from ablate.errors import Problem, nearest

Levels = Mapping[str, tuple[Scalar, ...]]


def default_contrasts(
    arms: Mapping[str, Arm], factors: Levels, together: Mapping[str, tuple[str, ...]]
) -> tuple[Contrast, ...]:
    """Compare the first arm that is no control with every other; if it is alone, each factor's first level likewise."""
    compared = [name for name, arm in arms.items() if not arm.control]
    if len(compared) > 1:
        return tuple(Contrast(arms=(compared[0], other)) for other in compared[1:])
    return tuple(
        Contrast(factor=factor, levels=(levels[0], other), along=together.get(factor, ()))
        for factor, levels in factors.items()
        for other in levels[1:]
    )


def read_contrasts(
    written: Sequence[ContrastFile | None],
    arm_names: Collection[str],
    factor_names: Collection[str],
    factors: Levels,
    together: Mapping[str, tuple[str, ...]],
    source: YamlSource,
) -> tuple[dict[int, Contrast], list[Problem]]:
    """Check contrasts.

    Args:
        written: the contrasts as written; None where the shape was wrong.
        arm_names: the names of all arms in the file.
        factor_names: the names of all factors in the file.
        factors: the levels of those factors whose levels are right.
        together: factor -> the factors that are zipped with it.
        source: the file, for line numbers.

    Returns:
        The contrasts that are right, by their position, and what is wrong with the others.
    """
    problems: list[Problem] = []
    kept: dict[int, Contrast] = {}
    for position, contrast in enumerate(written):
        if contrast is None:
            continue
        loc: Loc = ("contrasts", position)
        reader = _Reader(arm_names, factor_names, factors, together, source)
        resolved = reader.read(contrast, loc)
        problems += reader.problems
        if resolved is None:
            continue
        twin = next((other for other, earlier in kept.items() if _same(earlier, resolved)), None)
        if twin is None:
            kept[position] = resolved
        else:
            line = source.lines["contrasts", twin]
            found = f"the same comparison as contrasts[{twin}] in line {line}; the family would count it twice"
            problems.append(Problem(source.where(loc), found, advice="remove one of them"))
    return kept, problems


def _same(one: Contrast, two: Contrast) -> bool:
    """Say whether two contrasts are one comparison, possibly the other way round."""
    pair_one, pair_two = (one.arms or one.levels or ()), (two.arms or two.levels or ())
    return one.factor == two.factor and one.where == two.where and pair_one in (pair_two, pair_two[::-1])


class _Reader:
    """Checks one contrast."""

    def __init__(
        self,
        arm_names: Collection[str],
        factor_names: Collection[str],
        factors: Levels,
        together: Mapping[str, tuple[str, ...]],
        source: YamlSource,
    ) -> None:
        self.arm_names = arm_names
        self.factor_names = factor_names
        self.factors = factors
        self.together = together
        self.source = source
        self.problems: list[Problem] = []

    def read(self, contrast: ContrastFile, loc: Loc) -> Contrast | None:
        by_arms = contrast.arms is not None
        by_levels = contrast.factor is not None or contrast.levels is not None
        if by_arms == by_levels or (by_levels and (contrast.factor is None or contrast.levels is None)):
            given = [key for key in ("arms", "factor", "levels") if getattr(contrast, key) is not None]
            found = f"{' and '.join(given)} given" if given else "nothing is compared"
            if by_levels and not by_arms:
                found = f"only {given[0]} given"
            self._problem(loc, found, ALLOWED["contrasts", "*"])
            return None
        where = self._where(contrast, loc)
        if contrast.arms is not None:
            for position, name in enumerate(contrast.arms):
                self._known(name, self.arm_names, "arm", (*loc, "arms", position))
            if contrast.arms[0] == contrast.arms[1]:
                self._problem((*loc, "arms"), f"compares {contrast.arms[0]} with itself", "two different arms")
            pair = (contrast.arms[0], contrast.arms[1])
            return None if self.problems else Contrast(arms=pair, where=where)
        return self._levels(contrast.factor or "", contrast.levels or [], where, loc)

    def _levels(self, factor: str, levels: list[Any], where: dict[str, Scalar], loc: Loc) -> Contrast | None:
        self._known(factor, self.factor_names, "factor", (*loc, "factor"))
        found = [self._level(level, factor, (*loc, "levels", position)) for position, level in enumerate(levels)]
        reference, other = found[0], found[1]
        if reference is None or other is None:
            return None
        if reference == other:
            self._problem((*loc, "levels"), f"compares {reference} with itself", "two different levels")
        if factor in where:
            self._problem((*loc, "where", factor), f"{factor} is what is compared", "other factors")
        along = self.together.get(factor, ())
        return None if self.problems else Contrast(factor=factor, levels=(reference, other), where=where, along=along)

    def _where(self, contrast: ContrastFile, loc: Loc) -> dict[str, Scalar]:
        where: dict[str, Scalar] = {}
        for factor, value in contrast.where.items():
            here = (*loc, "where", factor)
            self._known(factor, self.factor_names, "factor", here)
            level = self._level(value, factor, here)
            if level is not None:
                where[factor] = level
        return where

    def _level(self, value: Any, factor: str, loc: Loc) -> Scalar | None:
        if factor not in self.factors or loc in self.source.refused:
            return None
        level = match_level(value, self.factors[factor])
        if level is None:
            self.problems.append(unknown_level(value, factor, self.factors[factor], self.source.where(loc)))
        return level

    def _known(self, name: str, names: Collection[str], kind: str, loc: Loc) -> None:
        if name not in names:
            found = f'no {kind} is called "{name}"'
            allowed = ", ".join(names) or f"none: the grid has no {kind}s"
            self.problems.append(Problem(self.source.where(loc), found, allowed, nearest(name, names)))

    def _problem(self, loc: Loc, found: str, allowed: str) -> None:
        self.problems.append(Problem(self.source.where(loc), found, allowed))
