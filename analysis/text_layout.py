"""Lays out plain text within a width: names are never cut, lines never end in blanks.

A table that is too wide gives each row's name a line of its own, and one that is still too wide becomes a list.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from rich.cells import cell_len

from analysis.gap_rows import Rows

INDENT = 2
BETWEEN = 2
NARROWEST = 24
"""A column of names is not made narrower than this."""

_WORD = re.compile(r"\[[-+<>0-9][^\]]{0,40}\]\S*|\S+")  # an interval stays on one line
_PIECE = re.compile(r"[^-_/;,.=]*[-_/;,.=]|[^-_/;,.=]+")


def wrap(text: str, width: int, first: str = "", rest: str = "") -> list[str]:
    """Fold a text at blanks; a word longer than a line is folded after ``-``, ``_`` and the like, or anywhere at worst.

    Args:
        text: one paragraph.
        width: columns.
        first: what the first line begins with.
        rest: what the others begin with.
    """
    lines, line = [], first
    blank = True
    for word in _WORD.findall(text):
        if not blank and cell_len(line) + 1 + cell_len(word) > width:
            lines.append(line)
            line, blank = rest, True
        if blank and cell_len(line) + cell_len(word) > width:
            *full, last = _fold(word, max(width - cell_len(line), 1), max(width - cell_len(rest), 1))
            for piece in full:
                lines.append(line + piece)
                line = rest
            line += last
        else:
            line += word if blank else f" {word}"
        blank = False
    return [one.rstrip() for one in [*lines, line]]


def pair_lines(rows: Sequence[tuple[str, str]], width: int) -> list[str]:
    """Return names with what belongs to each, in two columns; below each other where the second would be too narrow."""
    beside = INDENT + max((cell_len(name) for name, _ in rows), default=0) + BETWEEN
    lines = []
    for name, words in rows:
        head = f"{' ' * INDENT}{name}"
        if width - beside >= NARROWEST:
            lines += wrap(words, width, _padded(head, beside), " " * beside)
        else:
            lines += [*wrap(name, width, " " * INDENT, " " * INDENT), *wrap(words, width, " " * 4, " " * 4)]
    return lines


def bullet_lines(texts: Iterable[str], width: int) -> list[str]:
    """Return a list."""
    return [line for text in texts for line in wrap(text, width, f"{' ' * INDENT}- ", " " * (INDENT + 2))]


def table_lines(content: Rows, width: int) -> list[str]:
    """Return a table, its heads and a rule on top."""
    grid = [[cell.split("\n") for cell in row] for row in (content.columns, *content.rows)]
    widths = [max(cell_len(line) for row in grid for line in row[at]) for at in range(len(content.columns))]
    others = sum(widths[1:]) + BETWEEN * len(widths[1:])
    room = width - INDENT - others
    if room >= min(widths[0], NARROWEST):
        widths[0] = min(widths[0], room)
        for row in grid:
            row[0] = [line for name in row[0] for line in wrap(name, widths[0])]
        drawn = [_row(row, widths, content.left, INDENT) for row in grid]
    elif 2 * INDENT + others - BETWEEN <= width:
        drawn = [
            [
                *(line for name in row[0] for line in wrap(name, width, " " * INDENT, " " * INDENT)),
                *_row(row[1:], widths[1:], content.left - 1, 2 * INDENT),
            ]
            for row in grid
        ]
    else:
        return _records(content, width)
    rule = max(cell_len(line) for lines in drawn for line in lines) - INDENT
    head, *body = drawn
    return [*head, " " * INDENT + "─" * rule, *(line for lines in body for line in lines)]


def _row(cells: Sequence[Sequence[str]], widths: Sequence[int], left: int, indent: int) -> list[str]:
    lines = []
    for at in range(max(map(len, cells))):
        parts = []
        for column, (cell, size) in enumerate(zip(cells, widths, strict=True)):
            text = cell[at] if at < len(cell) else ""
            space = " " * (size - cell_len(text))
            parts.append(text + space if column < left else space + text)
        lines.append((" " * indent + (" " * BETWEEN).join(parts)).rstrip())
    return lines


def _records(content: Rows, width: int) -> list[str]:
    lines = []
    for name, *cells in content.rows:
        lines += wrap(name, width, " " * INDENT, " " * INDENT)
        heads = [" ".join(head.split("\n")) for head in content.columns[1:]]
        filled = [(head, ", ".join(cell.split("\n"))) for head, cell in zip(heads, cells, strict=True) if cell]
        lines += [f"{' ' * INDENT}{line}" for line in pair_lines(filled, width - INDENT)]
    return lines


def _fold(word: str, first: int, rest: int) -> list[str]:
    lines, room = [""], first
    for piece in _PIECE.findall(word):
        if lines[-1] and cell_len(lines[-1] + piece) > room:
            lines.append("")
            room = rest
        while cell_len(piece) > room:
            lines[-1], piece = piece[:room], piece[room:]
            lines.append("")
            room = rest
        lines[-1] += piece
    return lines


def _padded(text: str, size: int) -> str:
    return text + " " * (size - cell_len(text))
