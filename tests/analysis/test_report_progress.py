"""What a waiting user is told: which cell of how many, and about how long it will be."""

import io

import pytest
from rich.console import Console

from analysis.report_progress import REST, progress


def said(times, cells):
    """Return what is said without a terminal if the clock shows ``times`` at the start and at each cell."""
    out, shown = Console(file=io.StringIO(), width=200), iter(times)
    with progress(out, lambda: next(shown)) as told:
        for cell in cells:
            told(*cell)
    return out.file.getvalue()


def test_a_line_for_each_notebook_says_how_long_it_will_be():
    cells = [("01_gap.ipynb", 1, 23), ("01_gap.ipynb", 2, 23), ("02_verdict.ipynb", 1, 13), ("04.ipynb", 1, 5)]
    text = said([100.0, 120.0, 125.0, 120 + 20 * REST - 15, 120 + 20 * REST + 1], cells)
    assert text == (
        f"running 01_gap.ipynb, 23 cells, about {20 * REST:.0f} s left\n"
        "running 02_verdict.ipynb, 13 cells, about 15 s left\n"
        "running 04.ipynb, 5 cells\n"
    )


def test_of_a_short_wait_nothing_is_foretold():
    assert said([0.0, 2.0], [("01_gap.ipynb", 1, 23)]) == "running 01_gap.ipynb, 23 cells\n"


@pytest.mark.parametrize(("analysed", "left"), [(10.0, f", about {10 * REST:.0f} s left"), (1.0, "")])
def test_a_terminal_shows_the_cell(monkeypatch, analysed, left):
    updated = []
    monkeypatch.setattr("rich.status.Status.update", lambda self, status: updated.append(status))
    times = iter([0.0, analysed])
    with progress(Console(file=io.StringIO(), force_terminal=True), lambda: next(times)) as told:
        told("01_gap.ipynb", 6, 23)
    assert updated == [f"01_gap.ipynb: cell 6 of 23{left}"]
