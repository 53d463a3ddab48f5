"""The factors of a grid file as a tree, and every combination of their levels that it describes.

Everything in a mapping of factors is crossed: a factor's levels, a zip's rows, a union's combinations. Then each
conditional factor is crossed with the combinations in which its condition holds, and what is excluded is left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from ablate.design.condition import Condition
from ablate.design.trial_spec import Scalar
from ablate.design.yaml_source import Loc

Combination: TypeAlias = dict[str, Scalar]


@dataclass(frozen=True)
class Factor:
    """A factor where it is written: its levels, and where it exists (None: everywhere)."""

    name: str
    loc: Loc
    levels: tuple[Scalar, ...]
    when: Condition | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The factors in it."""
        return (self.name,)


@dataclass(frozen=True)
class Zip:
    """Factors that vary together: the n-th combination has the n-th level of each."""

    loc: Loc
    columns: tuple[Factor, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The factors in it."""
        return tuple(column.name for column in self.columns)

    @property
    def rows(self) -> list[Combination]:
        """Its combinations."""
        return [dict(zip(self.names, row, strict=True)) for row in zip(*(c.levels for c in self.columns), strict=False)]


@dataclass(frozen=True)
class Union:
    """Sub-grids side by side: the combinations of one, then those of the next."""

    loc: Loc
    members: tuple[SubGrid, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The factors in it, each once."""
        return tuple(dict.fromkeys(name for member in self.members for name in member.names))


@dataclass(frozen=True)
class SubGrid:
    """A mapping of factors: ``factors`` itself, or a member of a union.

    Attributes:
        parts: what is crossed, in file order; a conditional factor is applied after all others.
        exclude: the cells that are left out.
    """

    parts: tuple[Factor | Zip | Union, ...] = ()
    exclude: tuple[Condition, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The factors in it."""
        return tuple(dict.fromkeys(name for part in self.parts for name in part.names))

    @property
    def plain(self) -> bool:
        """Say whether it is nothing but factors to be crossed."""
        return not self.exclude and all(isinstance(part, Factor) and part.when is None for part in self.parts)

    @property
    def conditional(self) -> list[Factor]:
        """The factors that do not exist everywhere, each after those of them that its condition speaks of."""
        pending = [part for part in self.parts if isinstance(part, Factor) and part.when is not None]
        ordered: list[Factor] = []
        while pending:
            unsettled = {factor.name for factor in pending}
            ready = [factor for factor in pending if factor.when and not unsettled & set(factor.when.wanted)]
            ordered += ready or pending  # a circle was reported when the file was read
            pending = [factor for factor in pending if ready and factor not in ready]
        return ordered

    def written(self) -> Iterator[Factor]:
        """Yield every factor everywhere it is written."""
        for part in self.parts:
            if isinstance(part, Factor):
                yield part
            elif isinstance(part, Zip):
                yield from part.columns
            else:
                for member in part.members:
                    yield from member.written()

    def zips(self) -> Iterator[Zip]:
        """Yield every zip."""
        for part in self.parts:
            if isinstance(part, Zip):
                yield part
            elif isinstance(part, Union):
                for member in part.members:
                    yield from member.zips()

    def conditions(self) -> Iterator[Condition]:
        """Yield every ``when`` and every pattern of ``exclude``."""
        yield from (factor.when for factor in self.conditional if factor.when is not None)
        yield from self.exclude
        for part in self.parts:
            for member in part.members if isinstance(part, Union) else ():
                yield from member.conditions()


def combinations_at_most(grid: SubGrid) -> int:
    """Return how many combinations a tree describes before any is excluded, counting conditional factors everywhere."""
    count = 1
    for part in grid.parts:
        if isinstance(part, Factor):
            count *= max(1, len(part.levels))
        elif isinstance(part, Zip):
            count *= max(1, len(part.rows))
        else:
            count *= max(1, sum(combinations_at_most(member) for member in part.members))
    return count


def combinations(grid: SubGrid, arm: Collection[str], held: set[Loc]) -> list[Combination]:
    """Return the combinations that an arm is trained under, each once.

    Args:
        grid: the factors.
        arm: the arm's name, and that of the arm it repeats.
        held: the places of conditions that held somewhere are added to it.
    """
    found: list[Combination] = [{}]
    for part in grid.parts:
        if isinstance(part, Factor):
            options = [{part.name: level} for level in part.levels] if part.when is None else [{}]
        elif isinstance(part, Zip):
            options = part.rows
        else:
            options = [one for member in part.members for one in combinations(member, arm, held)]
        found = [{**one, **option} for one in found for option in options]
    for factor in grid.conditional:
        found = [wider for one in found for wider in _where_it_exists(factor, one, arm, held)]
    kept = [one for one in found if not _excluded(grid.exclude, one, arm, held)]
    return list({tuple(sorted(one.items())): one for one in kept}.values())


def _where_it_exists(factor: Factor, one: Combination, arm: Collection[str], held: set[Loc]) -> list[Combination]:
    assert factor.when is not None, "only conditional factors come here"
    if not factor.when.holds(arm, one):
        return [one]
    held.add(factor.when.loc)
    return [{**one, factor.name: level} for level in factor.levels]


def _excluded(patterns: Collection[Condition], one: Mapping[str, Scalar], arm: Collection[str], held: set[Loc]) -> bool:
    matching = [pattern.loc for pattern in patterns if pattern.holds(arm, one)]
    held.update(matching)
    return bool(matching)
