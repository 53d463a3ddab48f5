"""Prints a gap report for people: the verdicts, then what they rest on; within 100 columns, readable without colour."""

from __future__ import annotations

import os

from rich.console import Console
from rich.text import Text

from analysis.contrast import ContrastReport
from analysis.digits import plural
from analysis.evidence_lines import evidence_lines
from analysis.gap_report import GapReport
from analysis.gap_rows import arm_rows, gap_rows, verdict_rows
from analysis.headline import WORST_FIRST
from analysis.legend import legend
from analysis.text_layout import bullet_lines, pair_lines, table_lines, wrap

WIDTH = 100
NARROW = 40
MOST_DROPPED = 12
STYLES = {"BUG": "bold red", "CONFOUNDED": "bold red", "SYSTEMATIC": "bold yellow", "INCONCLUSIVE": "bold yellow"}


def print_gap(report: GapReport, console: Console | None = None) -> None:
    """Print the report.

    Args:
        report: what to print.
        console: where; standard output if not given. At most ``WIDTH`` columns of it are used. A file or a pipe has no
            width of its own (rich would take 80): it gets ``WIDTH``, or what the variable COLUMNS says.
    """
    target = console or Console()
    known = target.is_terminal or os.environ.get("COLUMNS", "").isdigit()
    width = max(min(WIDTH, target.width), NARROW) if known else WIDTH
    for line in gap_lines(report, width):
        target.print(line, soft_wrap=True)


def gap_lines(report: GapReport, width: int) -> list[Text]:
    """Return the report line by line; it starts with the verdict of the worst contrast, then those of the others."""
    worst = next((contrast for contrast in report.contrasts if contrast.label == report.worst), None)
    others = [contrast for contrast in report.contrasts if contrast is not worst]
    margin = f"margin {report.margin} (largest negligible gap)" if report.margin else "no margin"
    head = [("study", f"{report.study}: {report.question}"), ("outcome", f"{report.outcome}; {margin}")]
    lines = _verdict(report.headline, width)
    for contrast in sorted((one for one in others if one.control is None), key=_badness):
        verdict = contrast.verdict
        lines += _verdict(f"{verdict.headline}: {contrast.label}: {verdict.summary}", width)
    lines += [Text(""), *_plain(pair_lines([*head, ("run", report.run)], width))]
    if worst:
        lines += [*_title(f"Evidence: {worst.label}", width), *_plain(pair_lines(evidence_lines(worst), width))]
    lines += [*_title("Arms: outcome per trial", width), *_plain(table_lines(arm_rows(report.arms), width))]
    if report.contrasts:
        lines += [
            *_title("Gaps: A against B is the outcome of A less that of B, paired by block", width),
            *_plain(table_lines(gap_rows(report.contrasts), width)),
        ]
        lines += [*_title("Verdicts", width), *_plain(table_lines(verdict_rows(report.contrasts), width))]
    if others:
        sentences = [f"{contrast.label}: {contrast.verdict.sentence}" for contrast in others]
        lines += [*_title("The other contrasts in words", width), *_plain(bullet_lines(sentences, width))]
    if report.dropped:
        title = f"Left out: {plural(len(report.dropped), 'trial')}"
        lines += [*_title(title, width), *_plain(bullet_lines(_dropped(report), width))]
    if report.notes:
        lines += [*_title("Notes", width), *_plain(bullet_lines(report.notes, width))]
    words = legend(report)
    return lines + ([*_title("Words", width), *_plain(pair_lines(words, width))] if words else [])


def _badness(contrast: ContrastReport) -> int:
    return WORST_FIRST.index(contrast.verdict.headline)


def _verdict(sentence: str, width: int) -> list[Text]:
    word = sentence.partition(": ")[0]
    lines = _plain(wrap(sentence, width))
    lines[0].stylize(STYLES.get(word, "bold green"), 0, len(word))
    return lines


def _title(words: str, width: int) -> list[Text]:
    return [Text(""), *(Text(line, style="bold") for line in wrap(words, width))]


def _plain(lines: list[str]) -> list[Text]:
    return [Text(line) for line in lines]


def _dropped(report: GapReport) -> list[str]:
    lines = [f"{one.trial}: {one.reason} [{one.trial_id}; {'; '.join(one.contrasts)}]" for one in report.dropped]
    more = len(lines) - MOST_DROPPED
    return [*lines[:MOST_DROPPED], f"and {plural(more, 'more trial')}: --json lists them all"] if more > 0 else lines
