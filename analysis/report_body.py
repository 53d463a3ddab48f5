"""The part of a page that a notebook makes: its prose and what its calls show, without the calls."""

from __future__ import annotations

from html import escape
from typing import Any

from markdown_it import MarkdownIt

NOT_ON_THE_PAGE = "notebook-only"
"""Tag of cells that the page shows elsewhere: calls by their output, prose as it is."""


def body(notebook: Any) -> str:
    """Return an executed notebook as HTML.

    Args:
        notebook: with outputs. Prose is rendered as CommonMark; of an output the richest form is taken, and text is
            escaped. Streams are left out: a notebook's calls return what they show.
    """
    markdown = MarkdownIt("commonmark", {"html": False})
    pieces = []
    for cell in notebook.cells:
        if NOT_ON_THE_PAGE in cell.metadata.get("tags", ()):
            continue
        if cell.cell_type == "markdown":
            pieces.append(markdown.render(cell.source))
        elif cell.cell_type == "code":
            pieces += [_shown(output) for output in cell.outputs]
    return "\n".join(piece for piece in pieces if piece)


def _shown(output: Any) -> str:
    data = output.get("data", {})
    if "text/html" in data:
        return str(data["text/html"])
    if "image/png" in data:
        return f'<figure><div><img alt="" src="data:image/png;base64,{data["image/png"].strip()}"></div></figure>'
    return f"<pre>{escape(data['text/plain'])}</pre>" if "text/plain" in data else ""
