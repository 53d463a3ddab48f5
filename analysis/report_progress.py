"""Says on a terminal how far the notebooks are, with about how long it will be; a line for each notebook elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console

from analysis.run_notebook import Progress

REST = 2.5
"""The notebooks take about so many times as long as the analysis before them: 27 s of CPU after 11 at 10^8 batches."""
WORTH_SAYING_S = 10.0
"""A shorter wait is no news, and mostly the start of a kernel, which no analysis foretells."""


@contextmanager
def progress(console: Console, clock: Callable[[], float] = time.monotonic) -> Iterator[Progress]:
    """Show progress while the block runs.

    Args:
        console: where, usually standard error.
        clock: seconds that have passed.
    """
    begun, seen = clock(), set[str]()
    end: float | None = None
    with console.status("analysing the run ...") as status:

        def told(notebook: str, cell: int, cells: int) -> None:
            nonlocal end
            now = clock()
            if end is None:  # until now the run was analysed
                end = now + REST * (now - begun)
            left = f", about {end - now:.0f} s left" if end - now > WORTH_SAYING_S else ""
            if console.is_terminal:
                status.update(f"{notebook}: cell {cell} of {cells}{left}")
            elif notebook not in seen:
                seen.add(notebook)
                console.print(f"running {notebook}, {cells} cells{left}", markup=False, highlight=False)

        yield told
