"""A store that lost batches is called so by everything that reads it, before any verdict."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import pytest
from rich.console import Console
from synthetic import Told, arm, block_losses, grid, write_run

from ablate.design.spec import Outcome
from ablate.record.reader import Run
from analysis.gap import gap
from analysis.gap_table import print_gap
from analysis.lost_batches import lost_batches
from analysis.report import page
from analysis.trials import Trial
from analysis.verdict import verdict
from analysis.verdict_text import print_verdict

ARMS = {"plain": arm(), "changed": arm(way=2)}


def tell(trial):
    losses = block_losses(trial.block)
    return Told(losses, evaluate={"test": float(losses[-1])}, metrics={"size": losses})


def lose(run: Run) -> Run:
    shutil.rmtree(run.paths.batches)
    return run


def printed(show, report) -> str:
    console = Console(file=io.StringIO(), width=100)
    show(report, console)
    return " ".join(console.file.getvalue().split())


@pytest.mark.parametrize("outcome", [Outcome(), Outcome(evaluate="test"), Outcome(metric="size")])
def test_gap_verdict_and_report_open_with_it(tmp_path: Path, outcome: Outcome) -> None:
    run = lose(write_run(tmp_path / "run", grid(ARMS).model_copy(update={"outcome": outcome}), tell))
    found = gap(run)
    said = "DAMAGED STORE: 12 of 12 trials recorded as done have no batches here. What follows rests on what is left; "
    assert found.damage.startswith(said)
    assert f"`ablate check {tmp_path / 'run'}` lists" in found.damage
    assert printed(print_gap, found).startswith(said)
    assert printed(print_verdict, verdict(run)).startswith(said)
    assert verdict(run).contrasts[0].headline == "INCONCLUSIVE"
    html = page(run, found, [])
    assert html.index("DAMAGED STORE") < html.index("INCONCLUSIVE</b>")
    assert found.to_json()["damage"] == found.damage


def test_a_whole_store_is_not_called_damaged(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", grid(ARMS), tell)
    assert gap(run).damage == ""
    assert "DAMAGED" not in page(run, gap(run), [])


def test_trials_that_lack_some_are_counted_apart() -> None:
    trials = [Trial(name, "plain", 0, status=status, batches=9) for name, status in
              {"a": "done", "b": "diverged", "c": "done", "d": "failed", "e": "missing"}.items()]  # fmt: skip
    words = lost_batches(trials, {"a": 9, "b": 8}, Path("runs/x"))
    assert "1 of 3 trials recorded as done has no batches here, 1 lacks some of its batches. What" in words
    assert "1 of 3 trials recorded as done lacks some" in lost_batches(trials, {"a": 9, "b": 8, "c": 9}, Path("x"))
    assert lost_batches(trials, {"a": 9, "b": 9, "c": 9}, Path("x")) == ""
