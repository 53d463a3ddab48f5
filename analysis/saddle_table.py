"""Prints a saddle report for people: the answer first; within 100 columns, readable without colour."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from analysis.digits import plural, share
from analysis.saddle_indicators import NEAR
from analysis.saddle_report import SaddleReport
from analysis.saddle_rows import course_name, game_rows, indicator_rows, kind_rows, stage_rows, time_rows
from analysis.screen import plain, print_lines, title, verdict_lines
from analysis.text_layout import bullet_lines, pair_lines, table_lines

WORDS = (
    ("eigenvalue", "of the Hessian of the loss on the probe set: curvature along one direction of the parameters"),
    ("±", "the largest bound of any trial: an eigenvalue is that near"),
    ("( to )", "of a share: what the quadrature leaves open; its nodes may stand for eigenvalues on both sides"),
    ("near", f"reaching the quadratic model's own critical point would change the loss by at most {share(NEAR)}"),
    ("saddle", "near a critical point, and an eigenvalue below minus the floor is certain"),
    ("on a slope", "too far from a critical point to say"),
    ("undecided", "what lies in directions of small or unknown curvature could make it either"),
)


def print_saddle(report: SaddleReport, console: Console | None = None) -> None:
    """Print the report on ``console``, standard output if not given."""
    print_lines(lambda width: saddle_lines(report, width), console)


def saddle_lines(report: SaddleReport, width: int) -> list[Text]:
    """Return the report line by line; it starts with the answer."""
    several = len({one.player for one in report.courses}) > 1
    head = [
        ("asked", report.asked),
        ("by the rule", report.answer.rule),
        ("study", f"{report.study}: {report.question}"),
        ("looked at", report.looked),
        ("negative", report.floor),
        ("run", report.run),
    ]
    lines = [
        *verdict_lines(f"{report.answer.word}: {report.answer.sentence}", width),
        Text(""),
        *plain(pair_lines(head, width)),
    ]
    if report.time:
        lines += [
            *title("Time near saddles: share of snapshots, A against B is A less B, paired by block", width),
            *plain(table_lines(time_rows(report.time, several), width)),
        ]
    lines += [
        *title("Kinds of point after training began: snapshots", width),
        *plain(table_lines(kind_rows(report.courses, several), width)),
    ]
    for one in report.courses:
        lines += [
            *title(
                f"Over training: {course_name(one, several)}, median and range over {plural(one.trials, 'trial')}",
                width,
            ),
            *plain(table_lines(stage_rows(one), width)),
        ]
    if report.games:
        lines += [
            *title("The players' game: eigenvalues of its Jacobian", width),
            *plain(table_lines(game_rows(report.games), width)),
        ]
    for contrast, player in dict.fromkeys((one.contrast, one.player) for one in report.contrasts):
        own = [one for one in report.contrasts if (one.contrast, one.player) == (contrast, player)]
        whose = f", player {player}" if several else ""
        lines += [
            *title(f"Mean over training: {contrast}{whose}", width),
            *plain(table_lines(indicator_rows(own), width)),
        ]
    for words, found in (("Not compared", report.refused), ("Left out", report.dropped)):
        if found:
            lines += [*title(words, width), *plain(bullet_lines(found, width))]
    lines += [*title("Notes", width), *plain(bullet_lines(report.notes, width))]
    return [*lines, *title("Words", width), *plain(pair_lines(WORDS, width))]
