"""What the words of a report mean, for whoever reads one without the manual."""

from __future__ import annotations

from analysis.headline import Headline

HEADLINES: dict[Headline, str] = {
    "BUG": "a fault was seen at work during training, in one side of the comparison or both.",
    "CONFOUNDED": "the arms did not start equal, so no difference between them can be blamed on what was changed.",
    "SYSTEMATIC": "the outcomes differ by more than the margin, by more than chance and by more than rounding does.",
    "INCONCLUSIVE": "neither a difference nor its absence is shown yet.",
    "CHAOS": "the runs drift apart by rounding alone, and their outcomes agree within the margin.",
    "EQUIVALENT": "the outcomes agree within the margin that was fixed beforehand.",
    "BITWISE EQUAL": "every recorded loss is the same in every bit.",
}

WORDS: dict[str, str] = {
    "arm": "one way to compute: a device, a thread count, a backend flag, a precision, a library version.",
    "block": "one seed. All arms train every block from the same initial weights on the same data, so that arms can be "
    "compared block by block.",
    "trial": "one training run: one arm on one block.",
    "batch": "one step of training, counted from 0.",
    "outcome": "the one number per trial that arms are compared on.",
    "contrast": "one comparison, other against reference. Its gap is the other's outcome less the reference's.",
    "margin": "the largest gap that would not matter, fixed before the launch.",
    "control": "an arm that repeats another: exactly (A/A: it must come out equal in every bit), or with initial "
    "weights moved by one ulp, the smallest step between two floating-point numbers (what rounding alone does).",
    "audit": "the first batches of a trial stepped once more in float64 from its own state: its loss, gradients and "
    "updates may be as far from that as rounding explains, and no farther.",
    "cause": "why the losses differ: CONFOUNDED (the sides did not start equal), BUG (a fault was seen), REDUCED "
    "PRECISION or ROUNDING (the audit found all within what rounding explains), BITWISE EQUAL, UNKNOWN (not looked at, "
    "or not known well enough).",
    "size": "how large the gap is: DIFFERENT (Holm-adjusted p below 0.05), EQUIVALENT (within the margin, by two "
    "one-sided tests), both at once (DIFFERENT BUT NEGLIGIBLE), or UNDECIDED.",
}


def meaning(headline: str) -> str:
    """Return what a headline means; empty for a word that is none."""
    return {str(word): words for word, words in HEADLINES.items()}.get(headline, "")
