"""Tables as HTML, for notebooks and the report."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from analysis.gap_rows import Rows


@dataclass(frozen=True)
class Html:
    """A piece of a page; Jupyter and the report show it as it is.

    Attributes:
        text: HTML; everything that came from a run is escaped.
    """

    text: str

    def _repr_html_(self) -> str:
        return self.text


def table(rows: Rows, caption: str = "") -> Html:
    """Return a table; words to the left, numbers to the right."""
    head = "".join(_cell("th", name, at < rows.left, ' scope="col"') for at, name in enumerate(rows.columns))
    body = "".join(
        f"<tr>{''.join(_cell('td', text, at < rows.left) for at, text in enumerate(row))}</tr>" for row in rows.rows
    )
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return Html(f'<div class="scroll"><table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>')


def bullets(lines: list[str]) -> Html:
    """Return a list; nothing for no lines."""
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return Html(f"<ul>{items}</ul>" if items else "")


def pairs(rows: list[tuple[str, str]]) -> Html:
    """Return names with what belongs to each."""
    return Html(f"<dl>{''.join(f'<dt>{escape(name)}</dt><dd>{escape(words)}</dd>' for name, words in rows)}</dl>")


def heading(words: str) -> Html:
    """Return a heading inside a section."""
    return Html(f"<h3>{escape(words)}</h3>")


def paragraph(words: str) -> Html:
    """Return a paragraph."""
    return Html(f"<p>{escape(words)}</p>")


def _cell(tag: str, text: str, left: bool, more: str = "") -> str:
    side = "left" if left else "right"
    return f'<{tag}{more} style="text-align: {side}">{"<br>".join(map(escape, text.splitlines()))}</{tag}>'
