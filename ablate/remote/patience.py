"""Waiting for a store that does not answer: again and again, ever more seldom, and not for ever."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from ablate.remote.refusal import Unreachable

PATIENCE_S = 600.0
"""How long a trial's end, and a launch's, wait for a store that is away. Rows stay on the node's disk meanwhile."""
_SOONEST_S, _LATEST_S = 0.5, 15.0

T = TypeVar("T")


def backoff(tries: int) -> float:
    """Return how long to wait after so many tries in vain, in seconds."""
    return min(_SOONEST_S * 2.0 ** min(tries, 10), _LATEST_S)


def patiently(
    call: Callable[[], T],
    told: Callable[[str], None],
    patience_s: float | None = None,
    stop: threading.Event | None = None,
) -> T:
    """Return what ``call`` returns, calling it again as long as the store does not answer.

    Args:
        call: may be called many times.
        told: is told, once, that the store is being waited for, and once that it is back.
        patience_s: how long to go on. [default: PATIENCE_S]
        stop: ends the waiting when it is set.

    Raises:
        Unreachable: it did not come back in time.
    """
    until = time.monotonic() + (PATIENCE_S if patience_s is None else patience_s)
    stop = stop or threading.Event()
    tries = 0
    while True:
        try:
            found = call()
        except Unreachable as error:
            left = until - time.monotonic()
            if left <= 0 or stop.is_set():
                raise
            if not tries:
                said = f"{error.problems[0].where} {error.problems[0].found}"
                told(f"{said}: waiting for it, at most {left / 60:.0f} min")
            stop.wait(min(backoff(tries), left))
            tries += 1
        else:
            if tries:
                told("the store answers again")
            return found
