"""A trainable's traceback as its author wants to read it: without the frames of the loop that called it."""

from __future__ import annotations

import traceback
from pathlib import Path

import ablate

OURS = str(Path(ablate.__file__).parent)
LINES = 12
"""How much of a traceback a failure carries to the terminal; the whole of it is in the trial's log."""


def last_lines(error: BaseException) -> str:
    """Return the end of the traceback; leading frames of this package are left out, unless there are no others."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(OURS):
        frames = frames.tb_next
    text = "".join(traceback.format_exception(type(error), error, frames or error.__traceback__))
    return "\n".join(text.rstrip().splitlines()[-LINES:])
