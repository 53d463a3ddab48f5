"""The evidence under one contrast's verdict, a line for each kind."""

from __future__ import annotations

from analysis.audit_words import audited_line, disagreement_words
from analysis.audited import Audited
from analysis.contrast import ContrastReport
from analysis.digits import percent, plural
from analysis.guard_findings import Coverage
from analysis.one_ulp_words import one_ulp_words
from analysis.parameter_words import parameter_words

MEND = "the line named saved the tensor, the write is elsewhere: look for code that reuses its memory, or save a copy"


def evidence_lines(contrast: ContrastReport) -> list[tuple[str, str]]:
    """Return (kind, what was found) for each kind of evidence."""
    lines = [("start and data", _streams(contrast))]
    lines += [("saved tensors", _guard(side)) for side in contrast.guard]
    if any(side.fault for side in contrast.guard):
        lines.append(("to mend", MEND))
    lines += _audit(contrast)
    lines.append(("losses", _losses(contrast)))
    if contrast.parameters is not None:
        lines.append(("parameters", parameter_words(contrast.parameters)))
    beyond = contrast.beyond_one_ulp
    if beyond is not None:
        lines.append(("one ulp", f"{one_ulp_words(beyond, contrast.effect.gap)} ({beyond.control})"))
    elif contrast.control is None:
        lines.append(("one ulp", "no control arm: what rounding alone would do is not known"))
    if contrast.kinds:
        lines.append(("kinds", contrast.kinds))
    if contrast.verdict.unknown and contrast.control is None and contrast.divergence.differing:
        undetermined = "" if contrast.verdict.declared else "not determined: "
        lines.append(("why they differ", f"{undetermined}{contrast.verdict.unknown}"))
    return lines


def _audit(contrast: ContrastReport) -> list[tuple[str, str]]:
    sides = contrast.audit
    if not any(side.batches or side.fault for side in sides):
        lines = []
    else:
        lines = [("float64", audited_line(side)) for side in sides]
    if contrast.disagreement:
        lines.append(("float64", disagreement_words(contrast.disagreement, (contrast.reference, contrast.other))))
    lines += [("where", words) for side in sides for words in _where(side)]
    not_seen = dict.fromkeys(f"{side.label}: {words}" for side in sides for words in (*side.unjudged, *side.unseen))
    return lines + [("not seen", words) for words in not_seen]


def _where(side: Audited) -> list[str]:
    """Return where a side first departs; the empty parts of a finding are left out."""
    lines = []
    for one in side.departures:
        place = ", ".join(filter(None, [one.operation, one.source]))
        parts = [f"{side.label}: first departs at {place}" if place else f"{side.label}: {one.detail}"]
        parts += [one.detail] if place and one.detail else []
        parts += [f"shown alone by {one.reproduction}"] if one.reproduction else []
        lines.append("; ".join(parts))
    return lines


def _streams(contrast: ContrastReport) -> str:
    streams = contrast.streams
    if streams.mismatches:
        return "differ in " + "; ".join(str(mismatch) for mismatch in streams.mismatches)
    if not streams.compared:
        return "not known: no hashes were recorded on both sides"
    missing = f"; not recorded: {', '.join(streams.missing)}" if streams.missing else ""
    return f"equal on both sides, by hash: {', '.join(streams.compared)}{missing}"


def _guard(side: Coverage) -> str:
    if not side.batches:
        return f"{side.label}: no batch was watched"
    watched = plural(side.batches, "watched batch")
    if side.fault is None and not side.tensors:
        return f"{side.label}: nothing could be checked, no tensor was saved in {watched}"
    if side.fault is None:
        return f"{side.label}: none overwritten, {plural(side.tensors, 'tensor')} checked in {watched}"
    return f"{side.label}: overwritten in {side.fault.batches} of {watched}, {side.fault.per_batch} in the first"


def _losses(contrast: ContrastReport) -> str:
    parting = contrast.divergence
    if not parting.pairs:
        return "no pair of trials to compare"
    if parting.earliest is None:
        return f"equal bit by bit in {plural(parting.batches, 'batch')} of {plural(parting.pairs, 'pair')} of trials"
    words = (
        f"in {parting.differing} of {plural(parting.pairs, 'pair')} of trials they first differ at batch "
        f"{parting.earliest}"
    )
    growth = [f"{percent(size, 2).lstrip('+')} {_later(offset)}" for offset, size in parting.growth]
    return f"{words} (median over pairs {parting.median:g}): {', '.join(growth)}" if growth else words


def _later(offset: int) -> str:
    return "apart there" if offset == 0 else f"{plural(offset, 'batch')} later"
