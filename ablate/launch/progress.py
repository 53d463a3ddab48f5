"""Shows a launch while it runs: trials done and running, batches, time left. A live bar on a terminal, else lines."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

from ablate.record.status_table import time_left

LINE_EVERY_S = 5.0


@dataclass(frozen=True)
class State:
    """Where a launch stands; batches counts acknowledged rows of trials done and running.

    ``of`` says what is counted in trials, ``steps`` what batches are: probes count snapshots. ``waiting`` says what
    trials wait for in vain.
    """

    done: int
    failed: int
    running: int
    trials: int
    batches: int
    batches_in_all: int
    of: str = "trials done"
    steps: str = "batches"
    waiting: str = ""


def describe(state: State, left_s: float | None) -> str:
    """Return one line for people."""
    parts = [f"{state.done} of {state.trials} {state.of}", f"{state.running} running"]
    if state.failed:
        parts.append(f"{state.failed} failed")
    if state.waiting:
        parts.append(state.waiting)
    parts.append("time left not known yet" if left_s is None else time_left(left_s))
    return ", ".join(parts)


class Display:
    """Follows a launch from a thread of its own until closed."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Progress(
            SpinnerColumn(),
            BarColumn(bar_width=30),
            TextColumn("{task.percentage:>3.0f} %"),
            TextColumn("{task.description}"),
            console=console,
            transient=True,
        )
        self._task = self._live.add_task("starting", total=None)
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._state: Callable[[], State] | None = None
        self._printed = -LINE_EVERY_S
        if console.is_terminal:
            self._live.start()

    def stage(self, words: str) -> None:
        """Say what goes on before the first trial; without a terminal at most every few seconds."""
        if self._console.is_terminal:
            self._live.update(self._task, description=words)
        elif time.monotonic() - self._printed >= LINE_EVERY_S:
            self._printed = time.monotonic()
            self._console.print(words)

    def note(self, words: str) -> None:
        """Print a line that stays."""
        self._console.print(words, markup=False, highlight=False, soft_wrap=True)

    def follow(self, state: Callable[[], State]) -> None:
        """Show ``state()`` from now on, in place of what was shown before."""
        self._state = state
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Stop showing."""
        self._ended.set()
        if self._thread:
            self._thread.join()
        if self._console.is_terminal:  # on anything else it would print an empty line
            self._live.stop()

    def _watch(self) -> None:
        began: tuple[float, int] = (0.0, 0)
        followed: Callable[[], State] | None = None
        while not self._ended.wait(0.5):
            state = self._state
            assert state is not None, "the thread starts with something to follow"
            now, current = time.monotonic(), state()
            if state is not followed:
                followed, began = state, (now, current.batches)
            gained = current.batches - began[1]
            left = (now - began[0]) / gained * (current.batches_in_all - current.batches) if gained else None
            words = describe(current, left)
            if self._console.is_terminal:
                self._live.update(
                    self._task, description=words, completed=current.batches, total=current.batches_in_all
                )
            elif now - self._printed >= LINE_EVERY_S:
                self._printed = now
                share = 100 * current.batches / max(1, current.batches_in_all)
                self._console.print(f"{share:3.0f} % of {current.steps}, {words}")
