"""What ``ablate report`` has found out already, handed to its notebooks' kernels, so that no run is analysed twice."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from ablate.record.reader import Run
from analysis.gap_report import GapReport

VARIABLE = "ABLATE_REPORT_ANALYSIS"
"""Environment variable of a kernel: the file that holds the analysis. A notebook opened by hand has none."""


@contextmanager
def handing_over(run: Run, report: GapReport) -> Iterator[Mapping[str, str]]:
    """Give the environment that a kernel needs to take over an analysis; what it names is gone afterwards.

    Args:
        run: the store.
        report: its analysis.
    """
    with TemporaryDirectory(prefix="ablate-report-") as folder:  # only this user may look into it
        file = Path(folder) / "analysis.pickle"
        file.write_bytes(pickle.dumps((_whose(run), report)))
        yield {VARIABLE: str(file)}


def handed_over(run: Run) -> GapReport | None:
    """Return the analysis that was handed to this process; None without one, or if it is of another run or grid.

    Args:
        run: the store that is asked about.
    """
    file = os.environ.get(VARIABLE)
    if not file:
        return None
    whose, report = pickle.loads(Path(file).read_bytes())
    assert isinstance(report, GapReport), "only `handing_over` writes here"
    return report if whose == _whose(run) else None


def _whose(run: Run) -> tuple[str, str]:
    return str(run.paths.root.resolve()), run.spec.hash
