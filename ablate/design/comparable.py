"""Whether the contrasts of a study find cells to compare, where not every arm meets every combination of levels."""

from __future__ import annotations

from collections.abc import Mapping

from ablate.design.cross import cells
from ablate.design.matching import Matched, match
from ablate.design.spec import Contrast, GridSpec, level_text
from ablate.design.trial_spec import Scalar
from ablate.design.yaml_source import YamlSource
from ablate.errors import Problem

Cell = tuple[str, dict[str, Scalar]]

_NONE = "compares nothing: no two cells differ in this and in nothing else"
_ADVICE = "pin a factor that only one side has, or that differs too, with `where`"


def compared_cells(contrast: Contrast, grid: GridSpec) -> Matched[Cell]:
    """Return the cells that a contrast pairs; controls take part in a contrast of arms only, where they are named."""
    return match(
        contrast,
        (
            ((arm, factors), arm, factors, 0)
            for arm, factors in cells(grid)
            if contrast.arms is not None or not grid.arms[arm].control
        ),
    )


def uncomparable(grid: GridSpec, places: Mapping[int, Contrast], source: YamlSource) -> list[Problem]:
    """Return what is wrong with the contrasts of a grid file, in view of the cells that there are.

    Args:
        grid: the study.
        places: position in the file's ``contrasts`` -> contrast.
        source: the file, for line numbers.
    """
    problems = []
    seen: dict[frozenset[str], int] = {}
    for position, contrast in places.items():
        where = source.where(("contrasts", position))
        found = compared_cells(contrast, grid)
        if not found.pairs:
            problems.append(Problem(where, f"{contrast.label} {_NONE}", advice=_ADVICE))
        elif found.ambiguous is not None:
            one, two = map(_words, found.ambiguous)
            words = f"{contrast.label} cannot choose between two cells of one side: {one}; {two}"
            problems.append(Problem(where, words, advice="choose one with `where`"))
        elif (twin := seen.setdefault(_comparison(found), position)) != position:
            line = source.lines["contrasts", twin]
            words = f"the same comparison as contrasts[{twin}] in line {line}; the family would count it twice"
            problems.append(Problem(where, words, advice="remove one of them"))
    return problems


def only_comparable(grid: GridSpec, source: YamlSource) -> tuple[tuple[Contrast, ...], list[Problem]]:
    """Return those of the default contrasts that find cells to compare, each comparison once.

    Levels that cannot be compared are left out. Two arms without a common cell are a problem: nobody asks for an arm
    that is compared with nothing.
    """
    kept: dict[frozenset[str], Contrast] = {}
    problems = []
    for contrast in grid.contrasts:
        found = compared_cells(contrast, grid)
        if found.pairs and found.ambiguous is None:
            kept.setdefault(_comparison(found), contrast)
        elif contrast.arms is not None:
            reference, other = contrast.arms
            words = f"no cell in common with {reference}, so by default it is compared with nothing"
            advice = "leave them one in `factors`, or write `contrasts`"
            problems.append(Problem(source.where(("arms", other)), words, advice=advice))
    return tuple(kept.values()), problems


def _comparison(found: Matched[Cell]) -> frozenset[str]:
    """Identify a comparison by the cells it pairs, whichever of the two comes first."""
    return frozenset(" / ".join(sorted(map(_words, pair))) for pair in found.pairs)


def _words(cell: Cell) -> str:
    arm, factors = cell
    return ", ".join([f"arm {arm}", *(f"{name}={level_text(level)}" for name, level in factors.items())])
