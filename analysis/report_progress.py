"""Says on a terminal how far the notebooks are; a line for each notebook elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

from analysis.run_notebook import Progress


@contextmanager
def progress(console: Console) -> Iterator[Progress]:
    """Show progress while the block runs.

    Args:
        console: where, usually standard error.
    """
    seen: set[str] = set()
    with console.status("starting a kernel ...") as status:

        def told(notebook: str, cell: int, cells: int) -> None:
            if console.is_terminal:
                status.update(f"{notebook}: cell {cell} of {cells}")
            elif notebook not in seen:
                seen.add(notebook)
                console.print(f"running {notebook}, {cells} cells", markup=False, highlight=False)

        yield told
