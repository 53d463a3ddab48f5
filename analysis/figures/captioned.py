"""A figure with the sentence that says what it shows and of whom it speaks."""

from __future__ import annotations

import base64
import html
import io
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from matplotlib.figure import Figure

DPI = 150


@dataclass(frozen=True)
class Captioned:
    """A figure that Jupyter and the report show with its caption.

    Attributes:
        figure: drawn without pyplot, so nothing global holds it.
        title: what is shown, in a few words; also what a screen reader says.
        caption: how to read it, and which population it speaks of.
    """

    figure: Figure
    title: str
    caption: str

    def png(self) -> bytes:
        """Return the figure as PNG; the same bytes for the same numbers."""
        return self._drawn

    @cached_property
    def _drawn(self) -> bytes:
        """Drawn once: drawing again would lay the figure out anew."""
        buffer = io.BytesIO()
        self.figure.savefig(buffer, format="png", dpi=DPI, metadata={"Software": None})
        return buffer.getvalue()

    def save(self, path: Path | str) -> None:
        """Write the figure as PNG."""
        Path(path).write_bytes(self.png())

    def _repr_html_(self) -> str:
        data = base64.b64encode(self.png()).decode()
        title, caption = html.escape(self.title), html.escape(self.caption)
        picture = f'<img alt="{title}" src="data:image/png;base64,{data}" style="max-width: 100%">'
        return f"<figure><div>{picture}</div><figcaption><b>{title}.</b> {caption}</figcaption></figure>"
