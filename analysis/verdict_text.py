"""Prints a verdict for people: the opening, then each contrast with its evidence."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from analysis.screen import plain, print_lines, title, verdict_lines
from analysis.text_layout import pair_lines, wrap
from analysis.verdict import ContrastVerdict, VerdictReport


def print_verdict(report: VerdictReport, console: Console | None = None) -> None:
    """Print the report on ``console``, standard output if not given."""
    print_lines(lambda width: verdict_text(report, width), console)


def verdict_text(report: VerdictReport, width: int) -> list[Text]:
    """Return the report line by line; it opens as every account of the run does."""
    lines = [line for sentence in report.opening for line in verdict_lines(sentence, width)]
    margin = f"margin {report.margin} (largest negligible gap)" if report.margin else "no margin"
    head = [
        ("study", f"{report.study}: {report.question}"),
        ("outcome", f"{report.outcome}; {margin}"),
        ("run", report.run),
    ]
    lines += [Text(""), *plain(pair_lines(head, width))]
    for contrast in report.contrasts:
        lines += _contrast(contrast, contrast.sentence not in report.opening, width)
    last = [line for words in (*report.assumptions, report.blind) for line in wrap(words, width)]
    return [*lines, Text(""), *plain(last)]


def _contrast(contrast: ContrastVerdict, sentence: bool, width: int) -> list[Text]:
    kind = f" ({contrast.control} control)" if contrast.control else ""
    reason = f" ({contrast.unknown})" if contrast.unknown else ""
    pairs = [
        ("verdict", contrast.sentence if sentence else contrast.headline),
        ("cause", f"{contrast.word}{reason}"),
        ("size", f"{contrast.size}: gap {contrast.gap}"),
        *contrast.evidence,
        *(("would change it", words) for words in contrast.would_change),
        ("for an appendix", contrast.appendix),
    ]
    return [*title(f"{contrast.label}{kind}", width), *plain(pair_lines(pairs, width))]
