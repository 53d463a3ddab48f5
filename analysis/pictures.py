"""Pictures of what the arms produced, for the report: the place where a run's artifacts are shown."""

from __future__ import annotations

from dataclasses import dataclass

from ablate.record.reader import Run
from analysis.figures.captioned import Captioned


@dataclass(frozen=True)
class Pictures:
    """Pictures under a heading of their own; nothing at all without any.

    Attributes:
        shown: in order.
    """

    shown: tuple[Captioned, ...]

    def _repr_html_(self) -> str:
        if not self.shown:
            return ""
        return "<h2>What the arms produced</h2>" + "".join(picture._repr_html_() for picture in self.shown)


def find_pictures(run: Run) -> Pictures:
    """Return a picture for each artifact that a run kept.

    Args:
        run: the store. None keeps artifacts yet, so there is none to show.
    """
    return Pictures(())
