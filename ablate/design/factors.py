"""The factors of a study: read from the file, their levels of one kind, and the cells that each arm is trained in."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ablate.design.condition import Condition, read_condition
from ablate.design.factor_reader import FactorReader
from ablate.design.factor_tree import Factor, SubGrid, Union, combinations
from ablate.design.levels import kind_of, match_level
from ablate.design.spec import Cell
from ablate.design.trial_spec import Scalar
from ablate.design.validation import describe
from ablate.design.yaml_source import Loc, YamlSource
from ablate.errors import Problem


@dataclass(frozen=True)
class Factors:
    """What a file says of factors.

    Attributes:
        tree: the factors as written.
        names: every factor, in file order.
        levels: levels of each factor whose levels are right, in file order, all of one kind.
    """

    tree: SubGrid
    names: tuple[str, ...]
    levels: dict[str, tuple[Scalar, ...]]

    @property
    def together(self) -> dict[str, tuple[str, ...]]:
        """Factor -> the factors that vary together with it in some zip."""
        found: dict[str, tuple[str, ...]] = {}
        for zipped in self.tree.zips():
            for name in zipped.names:
                others = (other for other in zipped.names if other != name)
                found[name] = tuple(dict.fromkeys((*found.get(name, ()), *others)))
        return found


def read_factors(
    written: Mapping[str, Any], arms: Collection[str], source: YamlSource
) -> tuple[Factors, list[Problem]]:
    """Read ``factors``.

    Args:
        written: what stands under that key.
        arms: the names of all arms.
        source: the file, for line numbers.

    Returns:
        What is right in it, and what is wrong.
    """
    reader = FactorReader(source)
    shape = reader.sub_grid(written, ("factors",))
    levels, problems = _levels(shape, reader.spoilt, source)
    known = {name: levels.get(name) for name in shape.names}
    tree, wrong = _Conditions(reader.patterns, known, arms, source).settle(shape, ("factors",))
    return Factors(tree, shape.names, levels), [*reader.problems, *problems, *wrong]


def written_levels(source: YamlSource) -> dict[str, list[tuple[Loc, Scalar]]]:
    """Return every place where a level of each factor is written, with the level, of a file that is right."""
    tree = FactorReader(source).sub_grid(source.data.get("factors", {}), ("factors",))
    found: dict[str, list[tuple[Loc, Scalar]]] = {}
    for factor in tree.written():
        place = (*factor.loc, "levels")
        place = place if place in source.lines else factor.loc
        found.setdefault(factor.name, []).extend(((*place, n), level) for n, level in enumerate(factor.levels))
    return found


def read_cells(
    factors: Factors, arms: Mapping[str, str | None], source: YamlSource
) -> tuple[tuple[Cell, ...] | None, list[Problem]]:
    """Return the cells that the tree describes, and conditions that no cell meets.

    Args:
        factors: factors that are right.
        arms: every arm -> the arm that it repeats, if any.
        source: the file, for line numbers.

    Returns:
        The cells in file order; None where every arm meets every combination of levels, which needs no list.
    """
    if factors.tree.plain:
        return None, []
    held: set[Loc] = set()
    found: dict[tuple[tuple[str, Scalar], ...], list[str]] = {}
    problems = []
    for arm, original in arms.items():
        meant = {arm} if original is None else {arm, original}
        cells = combinations(factors.tree, meant, held)
        for cell in cells:
            key = tuple((name, _as_known(cell[name], factors.levels[name])) for name in factors.names if name in cell)
            found.setdefault(key, []).append(arm)
        if not cells:
            problems.append(Problem(source.where(("factors",)), f"every cell of the arm {arm} is excluded"))
    for condition in factors.tree.conditions():
        if condition.loc not in held:
            pattern = condition.loc[-1] != "when"
            words = "excludes nothing" if pattern else "the factor exists nowhere"
            found_there = f"{words}: no cell has all of this"
            problems.append(Problem(source.where(condition.loc), found_there, advice="remove or mend it"))
    return tuple(Cell(factors=dict(key), arms=tuple(members)) for key, members in found.items()), problems


def _as_known(level: Scalar, levels: Collection[Scalar]) -> Scalar:
    """Return the level as the factor has it: 1 as 1.0 where another list of the factor holds a broken number."""
    found = match_level(level, tuple(levels))
    assert found is not None, "every written level is a level of its factor"
    return found


def _levels(
    tree: SubGrid, spoilt: Collection[str], source: YamlSource
) -> tuple[dict[str, tuple[Scalar, ...]], list[Problem]]:
    """Merge the lists of levels that a factor has in several places."""
    merged: dict[str, list[Scalar]] = {}
    first: dict[str, Factor] = {}
    problems = []
    bad = set(spoilt)
    for factor in tree.written():
        kept = merged.setdefault(factor.name, [])
        before = first.setdefault(factor.name, factor)
        if kept and factor.levels and kind_of(factor.levels[0]) != kind_of(kept[0]):
            line = source.lines.get(before.loc, 0)
            here = f"found {describe(factor.levels[0])} beside {describe(kept[0])} in line {line}"
            problems.append(Problem(source.where(factor.loc), here, "levels of one kind"))
            bad.add(factor.name)
            continue
        kept += [
            level for n, level in enumerate(factor.levels) if match_level(level, (*kept, *factor.levels[:n])) is None
        ]
    found = {name: tuple(levels) for name, levels in merged.items() if name not in bad}
    for name, levels in found.items():
        if any(isinstance(level, float) for level in levels):
            found[name] = tuple(float(level) for level in levels)
    return found, problems


class _Conditions:
    """Puts conditions into the tree: each may speak of the factors of the mapping that it stands in, and of arms."""

    def __init__(
        self,
        patterns: Mapping[Loc, Mapping[str, Any]],
        levels: Mapping[str, tuple[Scalar, ...] | None],
        arms: Collection[str],
        source: YamlSource,
    ) -> None:
        self.patterns = patterns
        self.levels = levels
        self.arms = arms
        self.source = source
        self.problems: list[Problem] = []

    def settle(self, grid: SubGrid, loc: Loc) -> tuple[SubGrid, list[Problem]]:
        """Return the tree with its conditions, and what is wrong with them."""
        return self._settle(grid, loc), self.problems

    def _settle(self, grid: SubGrid, loc: Loc) -> SubGrid:
        parts = tuple(self._part(part, grid) for part in grid.parts)
        patterns = [place for place in self.patterns if place[:-1] == (*loc, "exclude")]
        settled = SubGrid(parts, tuple(self._read(place, grid.names) for place in patterns))
        return self._without_circles(settled)

    def _part(self, part: Any, grid: SubGrid) -> Any:
        if isinstance(part, Union):
            members = (self._settle(one, self._place(part, n)) for n, one in enumerate(part.members))
            return replace(part, members=tuple(members))
        place = (*part.loc, "when")
        if isinstance(part, Factor) and place in self.patterns:
            return replace(part, when=self._read(place, [name for name in grid.names if name != part.name]))
        return part

    def _place(self, union: Union, position: int) -> Loc:
        mappings = [n for n, one in enumerate(_at(self.source.data, union.loc)) if isinstance(one, dict)]
        return (*union.loc, mappings[position])

    def _read(self, place: Loc, names: Collection[str]) -> Condition:
        visible = {name: self.levels[name] for name in names}
        condition, wrong = read_condition(self.patterns[place], place, visible, self.arms, self.source)
        self.problems += wrong
        return condition

    def _without_circles(self, grid: SubGrid) -> SubGrid:
        """Report conditional factors that wait for each other, and take their conditions off."""
        waiting = {p.name: p.when for p in grid.parts if isinstance(p, Factor) and p.when is not None}
        while free := [name for name, when in waiting.items() if not set(when.wanted) - {name} & set(waiting)]:
            for name in free:
                del waiting[name]
        for name, when in waiting.items():
            others = ", ".join(other for other in when.wanted if other in waiting)
            found = f"{name} would exist by {others}, which would exist by {name}"
            self.problems.append(Problem(self.source.where(when.loc), found, advice="write them in a `union` instead"))
        parts = (replace(p, when=None) if isinstance(p, Factor) and p.name in waiting else p for p in grid.parts)
        return replace(grid, parts=tuple(parts))


def _at(data: Any, loc: Loc) -> Any:
    for part in loc:
        data = data[part]
    return data


def arm_names(written: Any) -> dict[str, str | None]:
    """Return every arm of a file -> the arm it repeats, whatever else is wrong with it."""
    if not isinstance(written, dict) or not written:
        return {"default": None}
    return {
        name: arm["repeat"] if isinstance(arm, dict) and arm.get("repeat") in list(written) else None
        for name, arm in written.items()
    }
