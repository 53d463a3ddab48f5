"""Prints a gap report for people: the verdict, then what it rests on; within 100 columns, readable without colour."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from analysis.arm_summary import ArmSummary
from analysis.contrast import ContrastReport
from analysis.digits import NONE, interval, number, p_value, percent, plural, signed
from analysis.evidence_lines import evidence_lines
from analysis.gap_report import GapReport

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
    parts += [_title("Arms: outcome per trial"), _arms(report.arms)]
    if report.contrasts:
        parts += [_title("Gaps: other - reference, paired by block"), _gaps(report.contrasts)]
        parts += [_title("Verdicts"), _verdicts(report.contrasts)]
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


def _table(*columns: str, left: int = 1) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1), show_edge=False)
    for position, name in enumerate(columns):
        table.add_column(Text(name), justify="left" if position < left else "right", no_wrap=position > 0)
    return table


def _arms(arms: Sequence[ArmSummary]) -> RenderableType:
    table = _table("arm", "control", "trials", "mean", "sd", "smallest", "largest", left=2)
    for arm in arms:
        trials = f"{arm.n}" if arm.n == arm.trials else f"{arm.n} of {arm.trials}"
        numbers = (number(arm.mean), number(arm.sd, 2), number(arm.smallest), number(arm.largest))
        table.add_row(*map(Text, (arm.arm, arm.control or "", trials, *numbers)))
    return Padding(table, (0, 0, 0, 2))


def _gaps(contrasts: Sequence[ContrastReport]) -> RenderableType:
    table = _table("contrast", "blocks", "gap", "95% interval", "p", "Holm p")
    for contrast in contrasts:
        effect = contrast.effect
        gaps = [percent(effect.relative), signed(effect.gap)]
        intervals = [interval(effect.relative_interval, as_percent=True), interval(effect.gap_interval)]
        if effect.relative is None:
            gaps, intervals = gaps[1:], intervals[1:]
        p, adjusted = p_value(effect.test.p), p_value(contrast.adjusted_p)
        if contrast.verdict.size == "EQUAL":  # decided without a test
            p = adjusted = NONE
        if contrast.control:
            adjusted = "control"
        row = (contrast.label, str(effect.n), "\n".join(gaps), "\n".join(intervals), p, adjusted)
        table.add_row(*map(Text, row))
    return Padding(table, (0, 0, 0, 2))


def _verdicts(contrasts: Sequence[ContrastReport]) -> RenderableType:
    table = _table("contrast", "losses differ", "cause", "size", "verdict", left=5)
    for contrast in contrasts:
        verdict, first = contrast.verdict, contrast.divergence.earliest
        declared = contrast.control == "one-ulp" and verdict.cause == "UNKNOWN"
        row = (
            contrast.label,
            ("never" if contrast.divergence.pairs else "-") if first is None else f"from batch {first}",
            "declared" if declared else verdict.cause,
            verdict.size,
            f"({contrast.control} control)" if contrast.control else verdict.headline,
        )
        table.add_row(*map(Text, row))
    return Padding(table, (0, 0, 0, 2))


def _dropped(report: GapReport) -> list[str]:
    lines = [f"{one.trial}: {one.reason} [{one.trial_id}; {'; '.join(one.contrasts)}]" for one in report.dropped]
    more = len(lines) - MOST_DROPPED
    return [*lines[:MOST_DROPPED], f"and {plural(more, 'more trial')}: --json lists them all"] if more > 0 else lines
