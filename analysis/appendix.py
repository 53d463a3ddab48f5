"""What was compared, how, and with what result, as sentences for a paper's appendix."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from ablate.design.spec import Margin
from analysis.audit_words import covered, disagreement_words, fault_words, nearest_words, reduced_words
from analysis.contrast import ContrastReport
from analysis.digits import interval, p_words, percent, plural, signed

ATTRIBUTED = {
    "CONFOUNDED": "No difference is attributed to what was compared, since the two did not start equal.",
    "BUG": "The comparison is void until this is repaired.",
    "ROUNDING": "The difference is attributed to rounding.",
    "UNKNOWN": "What causes the difference was not determined.",
}


def appendix(contrast: ContrastReport, outcome: str, margin: Margin | None, recorded: pa.Table) -> str:
    """Return the paragraph of one contrast.

    Args:
        contrast: with its verdict.
        outcome: what is compared, in words.
        margin: the equivalence margin.
        recorded: the ``trials`` data set, for machines and versions.
    """
    sentences = [
        f"We compared {contrast.other} with {contrast.reference} over {plural(contrast.effect.n, 'seed')}"
        f"{_setting(recorded)}.",
        _start(contrast),
        _arithmetic(contrast),
        _gap(contrast, outcome, margin),
        _attributed(contrast),
    ]
    return " ".join(filter(None, sentences))


def _setting(recorded: pa.Table) -> str:
    rows = recorded.to_pylist()
    names = {"cpu_model": "", "gpu": "", "torch": "torch ", "ablate": "ablate "}
    found = [f"{prefix}{_list(kinds)}" for name, prefix in names.items()
             if (kinds := sorted({row[name] for row in rows if row.get(name)}))]  # fmt: skip
    return f" ({', '.join(found)})" if found else ""


def _start(contrast: ContrastReport) -> str:
    streams = contrast.streams
    differing = list(dict.fromkeys(mismatch.stream for mismatch in streams.mismatches))
    equal = [name for name in streams.compared if name not in differing]
    said = []
    if equal:
        verb = "were" if len(equal) > 1 else "was"
        words = f"{_list(equal)} {verb} identical by hash"
        said.append(f"{words[:1].upper()}{words[1:]}.")
    if differing and contrast.verdict.cause == "CONFOUNDED":
        said.append(f"These differed: {_list(differing)}.")
    elif differing:
        said.append(f"The factor itself changes {_list(differing)}.")
    return " ".join(said) or "Whether both started equal was not recorded."


def _arithmetic(contrast: ContrastReport) -> str:
    reference, other = contrast.audit
    faults = [fault_words(contrast.audit)] if reference.fault or other.fault else []
    if contrast.disagreement:
        faults.append(disagreement_words(contrast.disagreement, (contrast.reference, contrast.other)))
    overwritten = sorted({arm for side in contrast.guard if side.fault for arm in side.fault.arms})
    if overwritten:
        faults.insert(0, f"a tensor was overwritten between forward and backward in arm {_list(overwritten)}.")
    if faults:
        return " ".join(f"{fault[:1].upper()}{fault[1:]}" for fault in faults)
    if not (reference.passed and other.passed):
        return "Gradients were not held against a float64 reference on both sides."
    sides = [f"{side.label}: {covered(side)}, {nearest_words(side)}" for side in contrast.audit]
    slopes = sum({name: count for side in contrast.audit for name, count in side.slopes.items()}.values())
    checked = f" The gradient was the slope of the loss in {plural(slopes, 'check')}." if slopes else ""
    return f"Gradients agreed with a float64 reference to within rounding ({'; '.join(sides)}).{checked}"


def _gap(contrast: ContrastReport, outcome: str, margin: Margin | None) -> str:
    effect = contrast.effect
    if contrast.verdict.cause == "BITWISE EQUAL":
        return f"All {contrast.divergence.batches:,} recorded losses were equal in every bit."
    if effect.gap is None:
        return "No seed has an outcome on both sides."
    relative = effect.relative is not None
    value = percent(effect.relative) if relative else signed(effect.gap)
    bounds = effect.relative_interval if relative else effect.gap_interval
    words = f"The outcome is the {outcome}; its paired gap was {value}"
    tests = [] if bounds.low is None else [f"95% BCa interval {interval(bounds, as_percent=relative)}"]
    name = "sign-flip p" if contrast.control else "Holm-adjusted sign-flip p"
    tests += [p_words(contrast.adjusted_p, name)] if contrast.adjusted_p is not None else []
    if margin is not None and effect.equivalence.p is not None:
        tests.append(f"TOST within a margin of {margin}: {p_words(effect.equivalence.p)}")
    return f"{words} ({'; '.join(tests)})." if tests else f"{words}."


def _attributed(contrast: ContrastReport) -> str:
    verdict = contrast.verdict
    if verdict.cause == "BITWISE EQUAL":
        return ""
    if verdict.declared:
        return f"{verdict.unknown[:1].upper()}{verdict.unknown[1:]}."
    if verdict.cause == "UNKNOWN" and contrast.control in ("one-ulp", "permute-rows"):
        return "The difference is that of the declared perturbation."
    if verdict.cause == "REDUCED PRECISION":
        return f"The difference is attributed to rounding in {reduced_words(contrast.audit)}."
    if verdict.cause == "ROUNDING" and verdict.headline == "SYSTEMATIC":
        return "Every audited step differs by rounding only, yet the gap exceeds that of one ulp in the first weights."
    return ATTRIBUTED[verdict.cause]


def _list(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1] if names else ""]))
