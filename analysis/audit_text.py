"""Prints an audit for people: the worst first, then a table of arms, then the contrasts."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from analysis.audit_report import ArmAudit, AuditReport, Comparison
from analysis.digits import plural, share
from analysis.gap_rows import Rows
from analysis.screen import plain, print_lines, title, verdict_lines
from analysis.text_layout import bullet_lines, table_lines, wrap

COLUMNS = (
    "loss, gradient, update: distance from float64 as a share of the norm, for the parameter nearest to its bound; "
    "slope: whether the gradient is the slope of the loss"
)


def print_audit(report: AuditReport, console: Console | None = None) -> None:
    """Print the report."""
    print_lines(lambda width: audit_lines(report, width), console)


def audit_lines(report: AuditReport, width: int) -> list[Text]:
    """Return the report line by line."""
    lines = verdict_lines(f"{report.cause}: {_summary(report)}", width)
    lines += [Text(""), *plain(table_lines(_table(report), width)), *plain(wrap(COLUMNS, width, "  ", "  "))]
    for head, texts in (
        ("Faults", [f"{arm.name}: {fault}" for arm in report.arms for fault in arm.faults]),
        ("Contrasts", _told(report.contrasts)),
        (f"Against the file ({report.made_on})", _told(report.against)),
        ("Not seen", [*(f"{arm.name}: {words}" for arm in report.arms for words in arm.unseen), report.not_seen]),
    ):
        if texts:
            lines += [*title(head, width), *plain(bullet_lines(texts, width))]
    return lines


def _told(found: Sequence[Comparison]) -> list[str]:
    return [f"{one.label}: {one.cause}: {one.words}" for one in found]


def _summary(report: AuditReport) -> str:
    if report.cause == "BUG":
        for arm in report.arms:
            if arm.faults:
                return f"in arm {arm.name}, {arm.faults[0]}"
    compared = [*report.contrasts, *report.against]
    worst = next((one for one in compared if one.cause == report.cause), None)
    if report.cause in ("BUG", "CONFOUNDED") and worst:
        return f"{worst.label}: {worst.words}"
    if report.cause == "UNKNOWN":
        names = [arm.name for arm in report.arms if arm.cause == "UNKNOWN"]
        names = names or [one.label for one in compared if one.cause == "UNKNOWN"]
        return f"not everything could be judged ({', '.join(names)})"
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
