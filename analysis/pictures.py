"""Pictures of what the arms produced, for the report: the place where a run's artifacts are shown."""

from __future__ import annotations

import html
from dataclasses import dataclass, replace

from ablate.errors import StoreError
from ablate.record.reader import Run
from analysis.figures.arm_pictures import draw_arm_pictures
from analysis.figures.captioned import Captioned
from analysis.showing import NothingToShow, showing

MOST_CELLS = 6
"""A page with a picture for each of more cells than this would be long; `ablate show` draws them all."""


@dataclass(frozen=True)
class Pictures:
    """Pictures under a heading of their own; nothing at all without any.

    Attributes:
        shown: in order.
        note: what a reader must know besides.
    """

    shown: tuple[Captioned, ...]
    note: str = ""

    def _repr_html_(self) -> str:
        if not self.shown and not self.note:
            return ""
        note = f"<p>{html.escape(self.note)}</p>" if self.note else ""
        return "<h2>What the arms produced</h2>" + "".join(picture._repr_html_() for picture in self.shown) + note


def find_pictures(run: Run) -> Pictures:
    """Return a picture for each cell of the factors, of the last batch that every arm has; none without artifacts.

    Args:
        run: the store.
    """
    try:
        found = showing(run)
    except NothingToShow:
        return Pictures(())
    except StoreError as error:
        return Pictures((), f"The pictures cannot be shown: {error}")
    cells = list(dict.fromkeys(trial.cell for trial in found.trials))
    one_each = [replace(found, trials=tuple(t for t in found.trials if t.cell == cell)) for cell in cells[:MOST_CELLS]]
    left = f"{len(cells) - MOST_CELLS} more cells are drawn by `ablate show`." if len(cells) > MOST_CELLS else ""
    return Pictures(tuple(draw_arm_pictures(one, run.grid.study) for one in one_each), left)
