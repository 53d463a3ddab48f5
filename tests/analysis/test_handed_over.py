"""``ablate report`` analyses a run once: its notebooks take that over, if it is of their run."""

import os
from pathlib import Path

import nbformat
import pytest
from synthetic import Told, arm, block_losses, grid, write_run

from ablate.record.reader import Run
from analysis.gap import gap
from analysis.handed_over import VARIABLE, handed_over, handing_over
from analysis.report import write_report
from analysis.study import Study


def tell(trial):
    return Told(block_losses(trial.block) * (1.3 if trial.arm == "changed" else 1))


def written(root, **changed):
    return write_run(root, grid({"plain": arm(), "changed": arm(way=2)}, **changed), tell)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return written(tmp_path_factory.mktemp("runs") / "run")


@pytest.fixture
def never(monkeypatch):
    def analysed(run):
        raise AssertionError("analysed again")

    monkeypatch.setattr("analysis.study.gap", analysed)


def given(monkeypatch, environment):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)


def test_a_study_takes_over_what_was_handed_to_it(run, monkeypatch, never):
    report = gap(run)
    with handing_over(run, report) as environment:
        given(monkeypatch, environment)
        assert Study(run.paths.root).report == report
        monkeypatch.chdir(run.paths.root.parent)
        assert Study("run").report == report  # the same folder by another name


def test_a_study_that_was_handed_nothing_analyses_its_run(run, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    assert handed_over(run) is None
    assert Study(run.paths.root).report == gap(run)


def test_what_was_handed_over_of_another_run_is_not_used(run, tmp_path, monkeypatch):
    other = written(tmp_path / "run")
    with handing_over(run, gap(run)) as environment:
        given(monkeypatch, environment)
        assert handed_over(other) is None
        assert str(tmp_path) in Study(other.paths.root).report.run


def test_what_was_handed_over_of_another_grid_in_the_same_folder_is_not_used(run, tmp_path, monkeypatch):
    here = written(tmp_path / "run")
    with handing_over(here, gap(here)) as environment:
        given(monkeypatch, environment)
        here.paths.root.rename(tmp_path / "moved")
        assert handed_over(written(tmp_path / "run", batches=59)) is None


def test_nothing_is_left_behind(run):
    with handing_over(run, gap(run)) as environment:
        file = Path(environment[VARIABLE])
        assert file.parent.stat().st_mode & 0o077 == 0  # a pickle: nobody else may write it
        assert VARIABLE not in os.environ
    assert not file.parent.exists()


def test_a_kernel_neither_analyses_again_nor_runs_what_the_page_leaves_out(run, tmp_path, monkeypatch):
    cells = [
        ('RUN = ""', ["parameters"]),
        ("import analysis.study\nanalysis.study.gap = None\nstudy = analysis.study.Study(RUN)", []),
        ("1 / 0", ["notebook-only"]),
        ("study.sentences()", []),
    ]
    made = nbformat.v4.new_notebook()
    made.cells = [nbformat.v4.new_code_cell(source, metadata={"tags": tags}) for source, tags in cells]
    nbformat.write(made, tmp_path / "mine.ipynb")
    monkeypatch.setattr("analysis.report.notebooks", lambda probed: [tmp_path / "mine.ipynb"])
    told = []
    write_report(Run(run.paths.root), tmp_path / "page.html", lambda *where: told.append(where))
    assert "<dt>changed against plain</dt>" in (tmp_path / "page.html").read_text()
    assert told == [("mine.ipynb", cell, 4) for cell in (1, 2, 3, 4)]
