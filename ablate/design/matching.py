"""Which cells a contrast compares: two that differ in what is compared, and in nothing else that both of them have."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Generic, NamedTuple, TypeVar

from ablate.design.spec import Contrast
from ablate.design.trial_spec import Scalar

T = TypeVar("T")
Key = tuple[tuple[str, Scalar], ...]


class Side(NamedTuple):
    """Where a cell stands in a contrast.

    Attributes:
        other: it is on the other side; else on the reference's.
        key: what it must have in common with its partner.
        pinned: the factors of the contrast's ``where`` that it has.
    """

    other: bool
    key: Key
    pinned: frozenset[str]


class Matched(NamedTuple, Generic[T]):
    """What a contrast makes of cells.

    Attributes:
        pairs: (reference, other), in order of the references.
        alone: (cell, whether it is on the other side) without a partner.
        ambiguous: two cells of one side that would have the same partner, if there are such.
    """

    pairs: list[tuple[T, T]]
    alone: list[tuple[T, bool]]
    ambiguous: tuple[T, T] | None


def side(contrast: Contrast, arm: str, factors: Mapping[str, Scalar]) -> Side | None:
    """Return where a cell stands in a contrast; None if it takes no part.

    A partner must have the same factors with the same levels, but for the compared factor, those zipped with it, and
    those of ``where``: a factor that does not exist on one side can be pinned there to a level of the other.

    Args:
        contrast: the comparison.
        arm: the cell's arm.
        factors: the cell's level of each factor that it has.
    """
    levels: tuple[Scalar, Scalar] = contrast.arms or contrast.levels or ("", "")
    value = arm if contrast.factor is None else factors.get(contrast.factor)
    if value is None or value not in levels:
        return None
    if any(name in factors and factors[name] != level for name, level in contrast.where.items()):
        return None
    set_free = {contrast.factor, *contrast.along, *contrast.where}
    shared = tuple((name, level) for name, level in factors.items() if name not in set_free)
    key = shared if contrast.factor is None else (("arm", arm), *shared)
    return Side(value == levels[1], key, frozenset(contrast.where.keys() & factors.keys()))


def match(contrast: Contrast, cells: Iterable[tuple[T, str, Mapping[str, Scalar], Hashable]]) -> Matched[T]:
    """Pair the cells of both sides.

    Args:
        contrast: the comparison.
        cells: what is paired, with its arm, its levels, and a group such as its block that partners share.
    """
    sides: tuple[dict[tuple[Hashable, Key], tuple[T, Side]], dict[tuple[Hashable, Key], tuple[T, Side]]] = ({}, {})
    twins: dict[tuple[Hashable, Key], tuple[T, T]] = {}
    for item, arm, factors, group in cells:
        stands = side(contrast, arm, factors)
        if stands is not None:
            mine = sides[stands.other]
            first, _ = mine.setdefault((group, stands.key), (item, stands))
            if first is not item:
                twins.setdefault((group, stands.key), (first, item))
    reference, other = sides
    whole = frozenset(contrast.where)
    paired = [
        key for key, (_, mine) in reference.items() if key in other and mine.pinned | other[key][1].pinned == whole
    ]
    taken = set(paired)
    return Matched(
        pairs=[(reference[key][0], other[key][0]) for key in paired],
        alone=[(item, stands.other) for one in sides for key, (item, stands) in one.items() if key not in taken],
        ambiguous=next((two for key, two in twins.items() if key in taken), None),
    )
