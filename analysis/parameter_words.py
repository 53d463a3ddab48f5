"""How far the parameters of a contrast's sides are apart, in words."""

from __future__ import annotations

from analysis.digits import plural, share
from analysis.parameter_distance import ParametersApart

OTHER_SHAPES = "of other shapes on the two sides, between which there is no distance"


def parameter_words(found: ParametersApart) -> str:
    """Return half a sentence; a batch is the one after which the parameters were sketched."""
    if not found.pairs:
        return OTHER_SHAPES
    seen = f"in {plural(found.sketches, 'sketch')} of {plural(found.pairs, 'pair')} of trials"
    if found.zero:
        return f"no distance {seen}"
    if not found.differing:
        floor = f", {share(found.floor)} of the distance trained," if found.floor is not None else ""
        return f"not apart by more than what rounding does to a sketch{floor} {seen}"
    words = ["apart from the initial weights on"] if found.from_start else []
    if found.first is None:
        return f"apart in their initial weights alone ({_pairs(found)})"
    if found.at_first is None or found.at_last is None:
        words.append(f"apart after batch {found.first}, while the reference has not moved")
    else:
        words.append(
            f"{'' if words else 'apart '}{share(found.at_first)} of the distance trained after batch {found.first}"
        )
        if found.last != found.first:
            words.append(f"{share(found.at_last)} at the last")
    return f"{', '.join(words)} ({_pairs(found)})"


def _pairs(found: ParametersApart) -> str:
    if found.differing == found.pairs:
        return f"median of {plural(found.pairs, 'pair')}"
    return f"median of the {found.differing} of {plural(found.pairs, 'pair')} that part"
