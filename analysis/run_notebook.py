"""Runs a notebook on a run, in a kernel of this very interpreter, whatever Jupyter kernels are registered."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nbformat
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError

from ablate.errors import AblateError, Problem
from analysis.report_body import NOT_ON_THE_PAGE

PARAMETERS = "parameters"
LONGEST_SOCKET = 80
NEED_PROBES = ("04_saddles.ipynb",)
FOLDER = Path(__file__).parent / "notebooks"
Progress = Callable[[str, int, int], None]
"""Called with the notebook's name, the cell it begins (from 1) and how many there are."""


def notebooks(probed: bool) -> list[Path]:
    """Return the shipped notebooks that have something to show, in the order of their names.

    Args:
        probed: whether the run has probes of its curvature.
    """
    return [path for path in sorted(FOLDER.glob("*.ipynb")) if probed or path.name not in NEED_PROBES]


def run_notebook(
    path: Path, run: Path, progress: Progress | None = None, given: Mapping[str, str] | None = None
) -> Any:
    """Execute a notebook with ``RUN`` set to a run's folder; cells whose output the page has elsewhere are passed over.

    Args:
        path: the notebook; one of its cells carries the tag ``parameters`` and sets ``RUN``.
        run: the run's folder.
        progress: told before each cell.
        given: environment variables that its kernel gets besides ours.

    Returns:
        The executed notebook.

    Raises:
        AblateError: a cell failed or the kernel died; the message names notebook and cell.
        ValueError: no cell carries the tag.
    """
    notebook = nbformat.read(path, as_version=4)
    _set_run(notebook, run.absolute(), path)
    cells, begun = len(notebook.cells), [0]

    def began(cell: Any, cell_index: int) -> None:
        begun[0] = cell_index
        if progress:
            progress(path.name, cell_index + 1, cells)

    with TemporaryDirectory(prefix="ablate-report-") as scratch, (Path(scratch) / "stderr").open("wb") as said:
        connection: dict[str, str] = {}
        if len(scratch) < LONGEST_SOCKET:  # files that only this user may open, rather than ports
            connection = {"transport": "ipc", "ip": str(Path(scratch) / "kernel")}
        manager = AsyncKernelManager(
            kernel_name="here",
            kernel_spec_manager=_ThisInterpreter(),
            connection_file=str(Path(scratch) / "kernel.json"),
            **connection,
        )
        client = NotebookClient(
            notebook, km=manager, timeout=None, on_cell_start=began, skip_cells_with_tag=NOT_ON_THE_PAGE
        )
        ours = {"IPYTHONDIR": scratch, "MPLBACKEND": "agg", "JUPYTER_PLATFORM_DIRS": "1"}
        environment = {**os.environ, **ours, **(given or {})}
        try:
            with _interruptible(client):
                client.execute(cwd=scratch, env=environment, stdout=said, stderr=said, cleanup_kc=True)
        except CellExecutionError as error:
            raise _failed(path, notebook, begun[0], f"{error.ename}: {error.evalue}", run) from error
        except DeadKernelError as error:
            last = (Path(scratch) / "stderr").read_text(errors="replace").strip().splitlines()[-3:]
            raise _failed(path, notebook, begun[0], " ".join(["its process died", *last]), run) from error
    return notebook


@contextmanager
def _interruptible(client: NotebookClient) -> Iterator[None]:
    """Let Ctrl-C be a KeyboardInterrupt: nbclient's own handler ends the kernel, and what fails then varies."""
    try:
        yield
    except (Exception, asyncio.CancelledError) as error:
        cancelled = isinstance(error, asyncio.CancelledError)
        if cancelled or getattr(client, "_async_cleanup_kernel_future", None) is not None:
            raise KeyboardInterrupt from error
        raise


class _ThisInterpreter(KernelSpecManager):
    """Knows one kernel: ours. A registered ``python3`` could be another environment's."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        argv = [sys.executable, "-X", "frozen_modules=off", "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return KernelSpec(argv=[*argv, "--HistoryManager.enabled=False"], display_name="this", language="python")


def _set_run(notebook: Any, run: Path, path: Path) -> None:
    for cell in notebook.cells:
        if PARAMETERS in cell.metadata.get("tags", ()):
            cell.source = f"RUN = {str(run)!r}"
            return
    raise ValueError(f"{path}: no cell carries the tag {PARAMETERS!r}")


def _failed(path: Path, notebook: Any, at: int, why: str, run: Path) -> AblateError:
    where = f"{path.name}, cell {at + 1} ({notebook.cells[at].source.splitlines()[-1].strip()})"
    advice = f"No page was written. Open {path} in Jupyter with RUN = {str(run.absolute())!r} to look closer."
    return AblateError(Problem(where, why, advice=advice))
