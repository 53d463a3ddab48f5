"""Prints a gap report for people: the verdicts, then what they rest on; within 100 columns, readable without colour."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from analysis.digits import plural
from analysis.evidence_lines import evidence_lines
from analysis.gap_report import GapReport
from analysis.gap_rows import arm_rows, gap_rows, verdict_rows
from analysis.legend import legend
from analysis.opening import opening
from analysis.screen import plain, print_lines, title, verdict_lines
from analysis.text_layout import bullet_lines, pair_lines, table_lines

MOST_DROPPED = 12


def print_gap(report: GapReport, console: Console | None = None) -> None:
    """Print the report on ``console``, standard output if not given."""
    print_lines(lambda width: gap_lines(report, width), console)


def gap_lines(report: GapReport, width: int) -> list[Text]:
    """Return the report line by line; it starts with the verdict of the worst contrast, then those of the others."""
    worst = next((contrast for contrast in report.contrasts if contrast.label == report.worst), None)
    others = [contrast for contrast in report.contrasts if contrast is not worst]
    margin = f"margin {report.margin} (largest negligible gap)" if report.margin else "no margin"
    head = [("study", f"{report.study}: {report.question}"), ("outcome", f"{report.outcome}; {margin}")]
    lines = [line for sentence in opening(report) for line in verdict_lines(sentence, width)]
    lines += [Text(""), *plain(pair_lines([*head, ("run", report.run)], width))]
    if worst:
        lines += [*title(f"Evidence: {worst.label}", width), *plain(pair_lines(evidence_lines(worst), width))]
    lines += [*title("Arms: outcome per trial", width), *plain(table_lines(arm_rows(report.arms), width))]
    if report.contrasts:
        lines += [
            *title("Gaps: A against B is the outcome of A less that of B, paired by block", width),
            *plain(table_lines(gap_rows(report.contrasts), width)),
        ]
        lines += [*title("Verdicts", width), *plain(table_lines(verdict_rows(report.contrasts), width))]
    if others:
        sentences = [f"{contrast.label}: {contrast.verdict.sentence}" for contrast in others]
        lines += [*title("The other contrasts in words", width), *plain(bullet_lines(sentences, width))]
    if report.dropped:
        lost = f"Left out: {plural(len(report.dropped), 'trial')}"
        lines += [*title(lost, width), *plain(bullet_lines(_dropped(report), width))]
    if report.notes:
        lines += [*title("Notes", width), *plain(bullet_lines(report.notes, width))]
    words = legend(report)
    return lines + ([*title("Words", width), *plain(pair_lines(words, width))] if words else [])


def _dropped(report: GapReport) -> list[str]:
    lines = [f"{one.trial}: {one.reason} [{one.trial_id}; {'; '.join(one.contrasts)}]" for one in report.dropped]
    more = len(lines) - MOST_DROPPED
    return [*lines[:MOST_DROPPED], f"and {plural(more, 'more trial')}: --json lists them all"] if more > 0 else lines
