"""The verdict of a contrast as sentences for people: what was found, and what the outcome shows."""

from __future__ import annotations

from dataclasses import dataclass

from ablate.design.spec import Margin
from analysis.audit_words import disagreement_words, explained, fault_words
from analysis.controls import Control
from analysis.digits import interval, p_words, percent, plural, signed
from analysis.guard_findings import Coverage
from analysis.guard_words import overwritten
from analysis.headline import Cause, Evidence, Headline
from analysis.one_ulp import BeyondOneUlp
from analysis.one_ulp_words import one_ulp_words
from analysis.size import Effect, Size
from analysis.undecided import HOLM, TOST, blocks_enough, no_equivalence, not_shown

DECLARED: dict[Control, str] = {
    "one-ulp": "one ulp in the initial weights",
    "permute-rows": "another order of the rows of every batch",
}
SAME: dict[Control, str] = {
    "A/A": "as the same arm run twice should be",
    "one-ulp": "so one ulp was rounded away",
    "permute-rows": "so the order of a batch's rows made no difference",
}
"""What it means that a control came out bitwise equal."""


@dataclass(frozen=True)
class Findings:
    """Everything a verdict is put into words from.

    Attributes:
        labels: what reference and other are called.
        headline: the one word.
        cause: why the sides differ.
        size: how large the gap is, in a word.
        evidence: what the cause rests on.
        effect: statistics of the outcome.
        adjusted_p: Holm-adjusted p; for a control the plain p.
        attainable_p: the smallest that so many blocks and contrasts can give; None without blocks.
        family: contrasts in the Holm family.
        margin: equivalence margin.
        beyond: comparison with a one-ulp control; None without one.
        control: kind of control, if the contrast is one.
        endings: which trials did not run to their end; empty if all did.
    """

    labels: tuple[str, str]
    headline: Headline
    cause: Cause
    size: Size
    evidence: Evidence
    effect: Effect
    adjusted_p: float | None
    attainable_p: float | None
    family: int
    margin: Margin | None
    beyond: BeyondOneUlp | None
    control: Control | None
    endings: str = ""


def sentence(found: Findings) -> str:
    """Return ``HEADLINE: ...`` in full sentences."""
    word = f"{found.control} control" if _only_a_control(found) else found.headline
    return f"{word}: {_body(found)} {found.endings}".rstrip()


def _only_a_control(found: Findings) -> bool:
    return found.control is not None and found.cause not in ("CONFOUNDED", "BUG")


def _body(found: Findings) -> str:
    if _only_a_control(found):
        return _control(found)
    reference, other = found.labels
    if found.cause == "CONFOUNDED":
        streams = "; ".join(str(mismatch) for mismatch in found.evidence.mismatches)
        body = f"{other} and {reference} differ before arithmetic could, in {streams}. No gap can be blamed on the arm."
        return " ".join([body, *(f"Besides, {fault}" for fault in _faults(found))])
    if found.cause == "BUG":
        first, *more = _faults(found)
        return " ".join([first, *(f"Besides, {fault}" for fault in more), _consequence(found)])
    if found.cause == "BITWISE EQUAL":
        parting = found.evidence.divergence
        batches, pairs = plural(parting.batches, "batch"), plural(parting.pairs, "pair")
        return f"{other} and {reference} have the same losses, bit by bit ({batches} in {pairs} of trials)."
    return _outcome(found)


def gap_words(effect: Effect) -> str:
    """Return gap and interval, in percent where that means something: ``+92.1% [+75.6, +109]% over 6 blocks``."""
    if effect.gap is None:
        return "unknown"
    relative = effect.relative is not None
    value = percent(effect.relative) if relative else signed(effect.gap)
    bounds = effect.relative_interval if relative else effect.gap_interval
    shown = "" if bounds.low is None else f" {interval(bounds, as_percent=relative)}"
    return f"{value}{shown} over {plural(effect.n, 'block')}"


def _faults(found: Findings) -> list[str]:
    """Return a sentence for each kind of fault, the guard's first: what it names often explains the others."""
    evidence = found.evidence
    faults = [_fault(evidence.guard)] if any(side.fault for side in evidence.guard) else []
    if any(side.fault for side in evidence.audit):
        faults.append(fault_words(evidence.audit))
    if evidence.disagreement:
        faults.append(disagreement_words(evidence.disagreement, found.labels))
    return faults


def _fault(guard: tuple[Coverage, Coverage]) -> str:
    reference, other = guard
    side, peer = (other, reference) if other.fault else (reference, other)
    fault = side.fault
    assert fault is not None, "called for a contrast with a fault"
    text = overwritten(fault)
    if peer.fault:
        return f"{text}; it happens on both sides."
    if not peer.batches:
        return f"{text}; {peer.label}: not watched."
    if not peer.tensors:
        return f"{text}; {peer.label}: nothing could be checked."
    return f"{text}; {peer.label}: none in {plural(peer.tensors, 'tensor')} checked."


def _control(found: Findings) -> str:
    parting = found.evidence.divergence
    if found.cause == "BITWISE EQUAL":
        same = SAME[found.control or "A/A"]
        return (
            f"bitwise equal, {same} ({plural(parting.batches, 'batch')} in {plural(parting.pairs, 'pair')} of trials)."
        )
    if found.effect.gap is None:
        return "no block has an outcome on both sides."
    moved = f"moves the outcome by {gap_words(found.effect)}"
    if found.control in DECLARED:
        return f"{DECLARED[found.control]} {moved}."
    return f"the same arm run twice does not repeat: its losses differ from batch {parting.earliest} on, which {moved}."


def _consequence(found: Findings) -> str:
    if found.effect.gap is None:
        return "No block has an outcome on both sides."
    if found.size in ("DIFFERENT", "DIFFERENT BUT NEGLIGIBLE"):
        return f"The outcome's gap is {gap_words(found.effect)} ({p_words(found.adjusted_p, HOLM)})."
    if found.size == "EQUAL":
        return "The outcomes are equal, the fault is there all the same."
    shown = not_shown(found.effect, found.adjusted_p, found.attainable_p, found.family)
    return f"The outcome's gap is {gap_words(found.effect)}: {shown}. The fault is there all the same."


def _outcome(found: Findings) -> str:
    known = found.cause in ("ROUNDING", "REDUCED PRECISION") and found.effect.gap is not None
    return f"{_gap(found)} {explained(found.evidence.audit)}" if known else _gap(found)


def _gap(found: Findings) -> str:
    effect, margin = found.effect, found.margin
    if effect.gap is None:
        return "no block has an outcome on both sides, so there is nothing to compare."
    reference, other = found.labels
    gap = gap_words(effect)
    differs = f"the outcome of {other} differs from that of {reference} by {gap}"
    within = f"within {margin} ({p_words(effect.equivalence.p, TOST)})"
    if found.size == "DIFFERENT":
        return f"{differs} ({p_words(found.adjusted_p, HOLM)}).{_beyond(found)}"
    if found.size == "DIFFERENT BUT NEGLIGIBLE":
        return f"{differs}, a difference ({p_words(found.adjusted_p, HOLM)}) but {within}."
    if found.size == "EQUIVALENT":
        return f"the outcomes of {other} and {reference} agree {within}: the gap is {gap}."
    shown = not_shown(effect, found.adjusted_p, found.attainable_p, found.family)
    sentences = (f"{shown[:1].upper()}{shown[1:]}.", no_equivalence(effect, margin), blocks_enough(effect, margin))
    return " ".join([f"the gap of {other} against {reference} is {gap}.", *filter(None, sentences)])


def _beyond(found: Findings) -> str:
    """Say what the one-ulp control adds to a difference; a control contrast is not held against another."""
    if found.control is not None:
        return ""
    if found.beyond is None:
        return " Whether one ulp would do as much is unknown: add a control arm with `repeat` and `perturb: one-ulp`."
    words = one_ulp_words(found.beyond, found.effect.gap)
    return f" {words[:1].upper()}{words[1:]}."
