"""What an undecided contrast lacks, in words: could so few blocks have shown anything, and how many would?"""

from __future__ import annotations

from ablate.design.attainable import LEVEL
from ablate.design.spec import Margin
from analysis.digits import number, p_value, p_words, plural
from analysis.size import Effect

HOLM, TOST = "Holm p", "TOST p"


def not_shown(effect: Effect, adjusted_p: float | None, attainable_p: float | None, family: int) -> str:
    """Say that no difference is shown, and whether one could have been.

    Args:
        effect: the contrast's statistics.
        adjusted_p: its Holm-adjusted p.
        attainable_p: the smallest adjusted p that its blocks can give.
        family: contrasts in the Holm family.

    Returns:
        str: without a full stop.
    """
    if attainable_p is None or attainable_p < LEVEL:
        return f"no difference is shown ({p_words(adjusted_p, HOLM)})"
    holm = f" after Holm's adjustment for {plural(family, 'contrast')}" if family > 1 else ""
    blocks = plural(effect.n, "block")
    return f"{blocks} cannot show a difference, however large: the smallest p{holm} is {p_value(attainable_p)}"


def no_equivalence(effect: Effect, margin: Margin | None) -> str:
    """Say that equivalence is not shown, and why if it was not tested; a full sentence."""
    if margin is None:
        return "Without a margin no equivalence is claimed."
    if effect.equivalence.p is None:
        return f"Equivalence could not be tested ({effect.equivalence.method})."
    return f"Equivalence within {margin} is not shown ({p_words(effect.equivalence.p, TOST)})."


def blocks_enough(effect: Effect, margin: Margin | None) -> str:
    """Say how many blocks would be enough, where that can be planned; a full sentence, or nothing.

    A gap that would not matter is not worth showing: inside the margin only equivalence is planned for.
    """
    for_difference = None if _negligible(effect, margin) else effect.blocks_for_difference
    for_equivalence = effect.blocks_for_equivalence if margin else None
    aims = [
        (for_difference, "to show a difference of this size"),
        (for_equivalence, "to show equivalence if the true gap is 0"),
    ]
    counts = [(number(max(blocks, effect.n + 1), 6), aim) for blocks, aim in aims if blocks]
    if not counts:
        return ""
    (first, aim), *more = counts
    return "; ".join([f"About {first} blocks would be enough {aim}", *(f"about {n} {aim}" for n, aim in more)]) + "."


def _negligible(effect: Effect, margin: Margin | None) -> bool:
    if margin is None or effect.gap is None:
        return False
    if margin.unit == "percent":
        return effect.relative is not None and abs(effect.relative) <= margin.value / 100
    return abs(effect.gap) <= margin.value
