"""Prints a gap report for people: the verdict, then what it rests on; within 100 columns, readable without colour."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from analysis.digits import plural
from analysis.evidence_lines import evidence_lines
from analysis.gap_report import GapReport
from analysis.gap_rows import Rows, arm_rows, gap_rows, verdict_rows

WIDTH = 100
MOST_DROPPED = 12
STYLES = {"BUG": "bold red", "CONFOUNDED": "bold red", "SYSTEMATIC": "bold yellow", "INCONCLUSIVE": "bold yellow"}


def print_gap(report: GapReport, console: Console | None = None) -> None:
    """Print the report.

    Args:
        report: what to print.
        console: where; standard output if not given. At most ``WIDTH`` columns of it are used.
    """
    target = console or Console()
    if not target.is_terminal:  # a file or a pipe has no width of its own; rich would take 80
        target = Console(file=target.file, width=WIDTH, no_color=True)
    target.print(gap_table(report), width=min(WIDTH, target.width))


def gap_table(report: GapReport) -> RenderableType:
    """Return the report as something rich can print; its first line is the verdict of the worst contrast."""
    worst = next((contrast for contrast in report.contrasts if contrast.label == report.worst), None)
    others = [contrast for contrast in report.contrasts if contrast is not worst]
    margin = f"margin {report.margin}" if report.margin else "no margin"
    parts: list[RenderableType] = [
        _verdict(report.headline),
        Text(""),
        _pairs([("study", f"{report.study}: {report.question}"), ("outcome", f"{report.outcome}; {margin}")]),
    ]
    if worst:
        parts += [_title(f"Evidence, {worst.label}"), _pairs(evidence_lines(worst))]
    parts += [_title("Arms: outcome per trial"), _table(arm_rows(report.arms))]
    if report.contrasts:
        parts += [_title("Gaps: other - reference, paired by block"), _table(gap_rows(report.contrasts))]
        parts += [_title("Verdicts"), _table(verdict_rows(report.contrasts))]
    if others:
        parts += [_bullets([f"{contrast.label}: {contrast.verdict.sentence}" for contrast in others])]
    if report.dropped:
        parts += [_title(f"Left out: {plural(len(report.dropped), 'trial')}"), _bullets(_dropped(report))]
    if report.notes:
        parts += [_title("Notes"), _bullets(report.notes)]
    return Group(*parts)


def _verdict(sentence: str) -> Text:
    word, _, rest = sentence.partition(": ")
    return Text.assemble((word, STYLES.get(word, "bold green")), f": {rest}")


def _title(words: str) -> Text:
    return Text(f"\n{words}", style="bold")


def _pairs(rows: Sequence[tuple[str, str]]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column()
    for name, words in rows:
        table.add_row(Text(f"  {name}"), Text(words))
    return table


def _bullets(lines: Sequence[str]) -> RenderableType:
    table = Table.grid(padding=(0, 1))
    for line in lines:
        table.add_row(Text("-"), Text(line))
    return Padding(table, (0, 0, 0, 2))


def _table(content: Rows) -> RenderableType:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1), show_edge=False)
    for position, name in enumerate(content.columns):
        table.add_column(Text(name), justify="left" if position < content.left else "right", no_wrap=position > 0)
    for row in content.rows:
        table.add_row(*map(Text, row))
    return Padding(table, (0, 0, 0, 2))


def _dropped(report: GapReport) -> list[str]:
    lines = [f"{one.trial}: {one.reason} [{one.trial_id}; {'; '.join(one.contrasts)}]" for one in report.dropped]
    more = len(lines) - MOST_DROPPED
    return [*lines[:MOST_DROPPED], f"and {plural(more, 'more trial')}: --json lists them all"] if more > 0 else lines
