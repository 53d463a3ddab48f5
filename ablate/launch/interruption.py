"""SIGTERM as an exception, so that a launch ends in order."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from ablate.errors import Terminated


@contextmanager
def sigterm_raises() -> Iterator[None]:
    """Treat SIGTERM as Ctrl-C until the end of the block: compiled code of Ray lets no other exception through."""
    received: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        received.append(number)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    except KeyboardInterrupt:
        if received:
            raise Terminated from None
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
