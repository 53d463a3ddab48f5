"""Prints a report for people, line by line: within 100 columns, readable without colour."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from rich.console import Console
from rich.text import Text

from analysis.text_layout import wrap

WIDTH = 100
NARROW = 40
STYLES = {"BUG": "bold red", "CONFOUNDED": "bold red", "DAMAGED STORE": "bold red"} | dict.fromkeys(
    ("SYSTEMATIC", "INCONCLUSIVE", "UNKNOWN", "NOT DECIDED", "NOTHING TO COMPARE"), "bold yellow"
)


def print_lines(lines: Callable[[int], Iterable[Text]], console: Console | None = None) -> None:
    """Print what ``lines`` gives for the width there is.

    Args:
        lines: columns -> lines no longer than that.
        console: where; standard output if not given. At most ``WIDTH`` columns of it are used. A file or a pipe has no
            width of its own (rich would take 80): it gets ``WIDTH``, or what the variable COLUMNS says.
    """
    target = console or Console()
    known = target.is_terminal or os.environ.get("COLUMNS", "").isdigit()
    width = max(min(WIDTH, target.width), NARROW) if known else WIDTH
    for line in lines(width):
        target.print(line, soft_wrap=True)


def verdict_lines(sentence: str, width: int) -> list[Text]:
    """Return a verdict's sentence, the headline before its colon in colour."""
    word = sentence.partition(": ")[0]
    lines = plain(wrap(sentence, width))
    lines[0].stylize(STYLES.get(word, "bold green"), 0, len(word))
    return lines


def title(words: str, width: int) -> list[Text]:
    """Return a section's title and the empty line above it."""
    return [Text(""), *(Text(line, style="bold") for line in wrap(words, width))]


def plain(lines: Iterable[str]) -> list[Text]:
    """Return lines without colour."""
    return [Text(line) for line in lines]
