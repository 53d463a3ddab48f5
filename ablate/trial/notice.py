"""The notice to leave: SIGTERM to a trial's process, which a spot machine's end or an operator sends.

The trial goes on to the end of its batch, leaves a checkpoint whatever its plan, and ends; its launch tries it again.
"""

from __future__ import annotations

import signal
from types import FrameType


class ToldToLeave(BaseException):
    """Ends the loop after the batch in hand; no `except Exception` of a trainable's own holds it up."""


class Notice:
    """Whether this process was told to leave."""

    def __init__(self) -> None:
        self.given = False

    def listen(self) -> None:
        """Take SIGTERM for the notice from now on; in the main thread."""
        signal.signal(signal.SIGTERM, self._take)

    def _take(self, number: int, frame: FrameType | None) -> None:
        self.given = True


NOTICE = Notice()
"""This process's own: signals are the process's too."""
