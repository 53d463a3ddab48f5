"""Half a line about a contrast, for a report that opens with another one."""

from __future__ import annotations

from analysis.audit_words import what_is_wrong
from analysis.digits import p_words
from analysis.sentence import Findings, gap_words
from analysis.undecided import HOLM


def summary(found: Findings) -> str:
    """Return what the headline of a contrast rests on, in a few words."""
    if found.cause == "CONFOUNDED":
        return f"the sides do not start equal ({found.evidence.mismatches[0].stream})"
    if found.cause == "BITWISE EQUAL":
        return "every loss is equal, bit by bit"
    gap = "no block has an outcome on both sides" if found.effect.gap is None else f"gap {gap_words(found.effect)}"
    if found.cause == "BUG":
        return f"{_fault(found)}; {gap}{_shown(found)}"
    cause = {"ROUNDING": "; rounding only", "REDUCED PRECISION": "; reduced precision"}.get(found.cause, "")
    return f"{gap}{_shown(found)}{cause}"


def _fault(found: Findings) -> str:
    overwritten = sorted({arm for side in found.evidence.guard if side.fault for arm in side.fault.arms})
    if overwritten:
        return f"a tensor is overwritten in arm {', '.join(overwritten)}"
    faults = [side.fault for side in reversed(found.evidence.audit) if side.fault]
    if faults:
        return f"{what_is_wrong(faults[0])} in arm {', '.join(faults[0].arms)}"
    return "the arms do not compute the same function"


def _shown(found: Findings) -> str:
    if found.effect.gap is None:
        return ""
    different = p_words(found.adjusted_p, HOLM)
    within = f"within {found.margin}"
    if found.size == "DIFFERENT":
        known = found.headline in ("SYSTEMATIC", "BUG")
        return f" ({different}){'' if known else ', not shown to be more than one ulp causes'}"
    return {
        "DIFFERENT BUT NEGLIGIBLE": f" ({different}), {within}",
        "EQUIVALENT": f", {within}",
        "EQUAL": "",
        "UNDECIDED": ", no difference shown" + (" and no equivalence" if found.margin else ""),
    }[found.size]
