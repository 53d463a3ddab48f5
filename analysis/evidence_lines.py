"""The evidence under one contrast's verdict, a line for each kind."""

from __future__ import annotations

from analysis.contrast import ContrastReport
from analysis.digits import percent, plural
from analysis.guard_findings import Coverage
from analysis.one_ulp_words import one_ulp_words

NOT_DETERMINED = "not determined: this version does not compare gradients with a float64 reference yet"
MEND = "the line named saved the tensor, the write is elsewhere: look for code that reuses its memory, or save a copy"


def evidence_lines(contrast: ContrastReport) -> list[tuple[str, str]]:
    """Return (kind, what was found) for each kind of evidence."""
    lines = [("start and data", _streams(contrast))]
    lines += [("saved tensors", _guard(side)) for side in contrast.guard]
    if any(side.fault for side in contrast.guard):
        lines.append(("to mend", MEND))
    lines.append(("losses", _losses(contrast)))
    beyond = contrast.beyond_one_ulp
    if beyond is not None:
        lines.append(("one ulp", f"{one_ulp_words(beyond, contrast.effect.gap)} ({beyond.control})"))
    elif contrast.control is None:
        lines.append(("one ulp", "no control arm: what rounding alone would do is not known"))
    if contrast.verdict.cause == "UNKNOWN" and contrast.control is None and contrast.divergence.differing:
        lines.append(("why they differ", NOT_DETERMINED))
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
