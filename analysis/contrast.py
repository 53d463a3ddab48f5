"""Everything about one contrast, brought together: outcomes, hashes, guard, audit, losses; and its verdict."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ablate.design.spec import Contrast, Margin
from analysis.audit_evidence import AuditEvidence
from analysis.audited import Audited
from analysis.confounding import Streams
from analysis.controls import Control
from analysis.divergence import Divergence
from analysis.endings import endings
from analysis.guard_findings import Coverage
from analysis.headline import WORST_FIRST, Cause, Evidence, Headline, cause, headline, unknown
from analysis.one_ulp import BeyondOneUlp
from analysis.pairing import Pair, Pairing, Sides
from analysis.parameter_distance import ParametersApart
from analysis.reference_agreement import Disagreement
from analysis.sentence import Findings, sentence
from analysis.size import Effect, Size, size
from analysis.summary import summary


@dataclass(frozen=True)
class PairedContrast:
    """A contrast and its matched trials.

    Attributes:
        contrast: as the grid resolved it.
        sides: reference and other.
        control: kind of control contrast; None for one of the study's own.
        pairing: its matched trials and paired outcomes.
        declared: what the grid itself changes between the sides, in words; empty if they should do the same.
    """

    contrast: Contrast
    sides: Sides
    control: Control | None
    pairing: Pairing
    declared: str


@dataclass(frozen=True)
class Verdict:
    """Cause, size and headline of a contrast, with a sentence for people and a short one.

    Attributes:
        cause: why the sides differ.
        unknown: why the cause is UNKNOWN; empty if it is another.
        declared: whether that is because the grid itself makes the sides differ.
        size: how large the gap is.
        headline: the one word for both.
        sentence: headline and everything that led to it.
        summary: half a line about the gap.
    """

    cause: Cause
    unknown: str
    declared: bool
    size: Size
    headline: Headline
    sentence: str
    summary: str


@dataclass(frozen=True)
class ContrastReport:
    """One contrast: other minus reference.

    Attributes:
        label: as the grid names it.
        control: kind of control contrast, which stays outside the Holm family; None for a contrast of the study.
        reference: the reference side in words.
        other: the other side in words.
        pairs: outcomes by block.
        effect: gap, intervals, tests.
        adjusted_p: Holm-adjusted p; for a control the plain p.
        attainable_p: the smallest that so many blocks and contrasts can give; None without blocks.
        divergence: where the losses part.
        streams: whether weights, data, order and draws agree; a factor's levels may differ by the factor's doing.
        guard: what the saved-tensor guard saw on the reference's and on the other side.
        audit: how far the reference's and the other side are from float64.
        disagreement: a value whose float64 references differ between two arms; None if there is none.
        parameters: how far the sides' parameters are apart; None if they were not sketched.
        beyond_one_ulp: gap minus the one-ulp control's; None without such a control.
        verdict: cause, size, headline.
        kinds: what the contrast can tell of two kinds of machines, in words; empty if its arms are not of two kinds.
    """

    label: str
    control: Control | None
    reference: str
    other: str
    pairs: tuple[Pair, ...]
    effect: Effect
    adjusted_p: float | None
    attainable_p: float | None
    divergence: Divergence
    streams: Streams
    guard: tuple[Coverage, Coverage]
    audit: tuple[Audited, Audited]
    disagreement: Disagreement | None
    parameters: ParametersApart | None
    beyond_one_ulp: BeyondOneUlp | None
    verdict: Verdict
    kinds: str = ""


def report(
    paired: PairedContrast,
    effect: Effect,
    adjusted_p: float | None,
    attainable_p: float | None,
    family: int,
    divergence: Divergence,
    streams: Streams,
    watched: AuditEvidence,
    parameters: ParametersApart | None,
    beyond: BeyondOneUlp | None,
    margin: Margin | None,
) -> ContrastReport:
    """Bring a contrast's evidence together and give its verdict.

    Args:
        paired: the contrast and its trials.
        effect: its statistics.
        adjusted_p: its Holm-adjusted p.
        attainable_p: the smallest that its blocks can give.
        family: contrasts in the Holm family.
        divergence: where its losses part.
        streams: whether weights, data, order and draws agree. A difference confounds a contrast of arms; a factor's
            level may change the model or the data by design, which is the treatment and no confounding.
        watched: what guard and audit saw on either side. Draws that went otherwise confound only what differs.
        parameters: how far its sides' parameters are apart; evidence for the reader, part of no verdict.
        beyond: comparison with a one-ulp control.
        margin: equivalence margin.

    Returns:
        ContrastReport: with its verdict.
    """
    if watched.other_draws and not divergence.bitwise_equal:
        known = [mismatch for mismatch in streams.mismatches if mismatch.stream != watched.other_draws.stream]
        streams = replace(streams, mismatches=(*known, watched.other_draws))
    evidence = Evidence(
        mismatches=streams.mismatches if paired.contrast.factor is None else (),
        guard=watched.guard,
        audit=watched.audit,
        disagreement=watched.disagreement,
        declared=paired.declared,
        divergence=divergence,
        outcomes_equal=bool((paired.pairing.gap == 0).all()),
    )
    why = cause(evidence)
    how_large = size(evidence.bitwise_equal, adjusted_p, effect.equivalence.equivalent)
    word = headline(why, how_large, beyond.shown if beyond else None)
    reference, other = paired.sides.labels
    ended = endings(paired.pairing.matches, (reference, other))
    findings = Findings(
        labels=(reference, other),
        headline=word,
        cause=why,
        size=how_large,
        evidence=evidence,
        effect=effect,
        adjusted_p=adjusted_p,
        attainable_p=attainable_p,
        family=family,
        margin=margin,
        beyond=beyond,
        control=paired.control,
        endings=ended,
    )
    return ContrastReport(
        label=paired.contrast.label,
        control=paired.control,
        reference=reference,
        other=other,
        pairs=paired.pairing.pairs,
        effect=effect,
        adjusted_p=adjusted_p,
        attainable_p=attainable_p,
        divergence=divergence,
        streams=streams,
        guard=watched.guard,
        audit=watched.audit,
        disagreement=watched.disagreement,
        parameters=parameters,
        beyond_one_ulp=beyond,
        verdict=Verdict(
            cause=why,
            unknown=unknown(evidence) if why == "UNKNOWN" else "",
            declared=why == "UNKNOWN" and bool(paired.declared),
            size=how_large,
            headline=word,
            sentence=sentence(findings),
            summary=summary(findings),
        ),
    )


def worst(contrasts: tuple[ContrastReport, ...]) -> ContrastReport | None:
    """Return what a report opens with: the worst headline, the first of equals; a control if there is no other."""
    own = [contrast for contrast in contrasts if contrast.control is None] or list(contrasts)
    return min(own, key=lambda contrast: WORST_FIRST.index(contrast.verdict.headline), default=None)
