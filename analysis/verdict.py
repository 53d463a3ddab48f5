"""``ablate verdict``: cause, size and headline of each contrast, and under each everything that it rests on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ablate.design.own_settings import own_settings_words
from ablate.design.spec import GridSpec, Margin
from ablate.record.reader import Run
from analysis.appendix import appendix
from analysis.as_json import as_json
from analysis.contrast import ContrastReport
from analysis.controls import Control
from analysis.evidence_lines import evidence_lines
from analysis.gap import gap
from analysis.gap_notes import taken_for_granted
from analysis.gap_report import GapReport
from analysis.gap_rows import cause_word
from analysis.headline import Cause, Headline
from analysis.opening import badness, opening
from analysis.sentence import gap_words
from analysis.size import Size
from analysis.would_change import would_change

BLIND = (
    "No audit sees a fault in the loss's definition that all arms share, or what happens after the audited batches; "
    "the guard watches every 50th batch as well, unless the grid says otherwise."
)


@dataclass(frozen=True)
class ContrastVerdict:
    """One contrast's verdict with all its evidence.

    Attributes:
        label: the contrast.
        control: kind of control contrast; None for one of the study's own.
        cause: why the sides differ.
        word: the cause as it is printed: ``declared`` where it is unknown beside what the grid itself changes.
        unknown: why the cause is UNKNOWN; empty if it is another.
        size: how large the gap is, in a word.
        headline: the one word for both.
        gap: gap and interval in words.
        sentence: the verdict in full sentences.
        evidence: (kind, what was found).
        would_change: what would change the verdict.
        appendix: a paragraph for a paper's appendix.
    """

    label: str
    control: Control | None
    cause: Cause
    word: str
    unknown: str
    size: Size
    headline: Headline
    gap: str
    sentence: str
    evidence: tuple[tuple[str, str], ...]
    would_change: tuple[str, ...]
    appendix: str


@dataclass(frozen=True)
class VerdictReport:
    """Everything ``ablate verdict`` says about a run.

    Attributes:
        study: its name.
        question: what it asks.
        outcome: what is compared, in words.
        margin: the equivalence margin in words; None without one.
        run: how the trials ended, how long they took, where, and in which store; in words.
        opening: the worst contrast's verdict, then half a line for each other one.
        contrasts: the study's own, the worst first, then the controls'.
        assumptions: what tests and intervals take for granted, and how often they go wrong without it.
        blind: what no audit can see.
    """

    study: str
    question: str
    outcome: str
    margin: str | None
    run: str
    opening: tuple[str, ...]
    contrasts: tuple[ContrastVerdict, ...]
    assumptions: tuple[str, ...]
    blind: str

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain dicts, lists and text, ready for ``json.dumps``."""
        return as_json(self)


def verdict(run: Run, seed: int = 0, margin: Margin | None = None) -> VerdictReport:
    """Judge every contrast of a run.

    Args:
        run: the store; only its Parquet files are read.
        seed: seed of every resampling.
        margin: an equivalence margin given after the fact, which is labelled so; None takes the grid's.

    Returns:
        VerdictReport: also of a run that is still going on.

    Raises:
        BadInput: the outcome that the grid asks for was not recorded.
    """
    return judge(run, gap(run, seed, margin), margin or run.grid.margin)


def judge(run: Run, report: GapReport, within: Margin | None) -> VerdictReport:
    """Return the verdicts of a run whose gaps are known.

    Args:
        run: the store.
        report: its analysis.
        within: the equivalence margin.
    """
    recorded = run.trials()

    def judged(contrast: ContrastReport) -> ContrastVerdict:
        return ContrastVerdict(
            label=contrast.label,
            control=contrast.control,
            cause=contrast.verdict.cause,
            word=cause_word(contrast),
            unknown=contrast.verdict.unknown,
            size=contrast.verdict.size,
            headline=contrast.verdict.headline,
            gap=gap_words(contrast.effect),
            sentence=contrast.verdict.sentence,
            evidence=(*evidence_lines(contrast), *_settings(contrast, run.grid)),
            would_change=tuple(would_change(contrast, within)),
            appendix=appendix(contrast, report.outcome, within, recorded),
        )

    ordered = sorted(report.contrasts, key=lambda one: (one.control is not None, badness(one)))
    return VerdictReport(
        study=report.study,
        question=report.question,
        outcome=report.outcome,
        margin=report.margin,
        run=report.run,
        opening=tuple(opening(report)),
        contrasts=tuple(judged(contrast) for contrast in ordered),
        assumptions=tuple(taken_for_granted(report.contrasts)),
        blind=BLIND,
    )


def _settings(contrast: ContrastReport, grid: GridSpec) -> list[tuple[str, str]]:
    """Return in which settings the arms of a BUG differ that is none of memory: it may be what was asked for."""
    if contrast.verdict.cause != "BUG" or any(side.fault for side in contrast.guard):
        return []
    words = [own_settings_words(one, grid) for one in grid.contrasts if one.label == contrast.label]
    return [("settings", one) for one in words if one]
