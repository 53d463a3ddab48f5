"""Prints an audit for people: the worst first, then a table of arms, then the contrasts."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from analysis.audit_report import ArmAudit, AuditReport
from analysis.digits import plural, share
from analysis.gap_rows import Rows
from analysis.text_layout import bullet_lines, table_lines, wrap

WIDTH = 100
COLUMNS = (
    "loss, gradient, update: distance from float64 as a share of the norm, for the parameter nearest to its bound; "
    "slope: whether the gradient is the slope of the loss"
)
STYLES = {"BUG": "bold red", "CONFOUNDED": "bold red", "UNKNOWN": "bold yellow"}


def print_audit(report: AuditReport, console: Console, against: Sequence[str] = ()) -> None:
    """Print the report, at most ``WIDTH`` columns wide.

    Args:
        report: what to print.
        console: where.
        against: what a comparison with a file found, a line each.
    """
    width = min(WIDTH, console.width) if console.is_terminal else WIDTH
    for line in audit_lines(report, width, against):
        console.print(line, soft_wrap=True)


def audit_lines(report: AuditReport, width: int, against: Sequence[str] = ()) -> list[Text]:
    """Return the report line by line."""
    lines = _headed(f"{report.cause}: {_summary(report)}", report.cause, width)
    lines += [Text(""), *_plain(table_lines(_table(report), width)), *_plain(wrap(COLUMNS, width, "  ", "  "))]
    faults = [f"{arm.name}: {fault}" for arm in report.arms for fault in arm.faults]
    for title, texts in (
        ("Faults", faults),
        ("Contrasts", [f"{one.label}: {one.cause}: {one.words}" for one in report.contrasts]),
        ("Against the file", list(against)),
        ("Not seen", [*_unseen(report), report.not_seen]),
    ):
        if texts:
            lines += [Text(""), Text(title, style="bold"), *_plain(bullet_lines(texts, width))]
    return lines


def _summary(report: AuditReport) -> str:
    if report.cause == "BUG":
        for arm in report.arms:
            if arm.faults:
                return f"in arm {arm.name}, {arm.faults[0]}"
    worst = next((one for one in report.contrasts if one.cause == report.cause), None)
    if report.cause in ("BUG", "CONFOUNDED") and worst:
        return f"{worst.label}: {worst.words}"
    if report.cause == "UNKNOWN":
        names = [arm.name for arm in report.arms if arm.cause == "UNKNOWN"] or [one.label for one in report.contrasts]
        return f"not every arm could be judged ({', '.join(names)})"
    arms, batches = plural(len(report.arms), "arm"), plural(report.batches, "batch")
    return f"in {batches} of {arms}, rounding explains every distance from float64"


def _table(report: AuditReport) -> Rows:
    return Rows(
        ("arm", "loss", "gradient", "update", "of its bound", "slope", "precision", "verdict"),
        1,
        tuple(
            (
                arm.name,
                "-" if arm.loss is None else f"{arm.loss:.1e}",
                _cell(arm.gradient),
                _cell(arm.update),
                "-" if arm.used is None else share(arm.used),
                _slope(arm),
                arm.precision or "-",
                arm.cause,
            )
            for arm in report.arms
        ),
    )


def _cell(found: tuple[float, str] | None) -> str:
    return "-" if found is None else f"{found[0]:.1e}"


def _slope(arm: ArmAudit) -> str:
    return {"clean": "right", "bug": "wrong", "": "-"}.get(arm.slope, arm.slope)


def _unseen(report: AuditReport) -> list[str]:
    return [f"{arm.name}: {words}" for arm in report.arms for words in arm.unseen]


def _headed(sentence: str, word: str, width: int) -> list[Text]:
    lines = _plain(wrap(sentence, width))
    lines[0].stylize(STYLES.get(word, "bold green"), 0, len(word))
    return lines


def _plain(lines: Sequence[str]) -> list[Text]:
    return [Text(line) for line in lines]
