"""What the audit does not run twice gives what it would give if it did."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from audited_study import Row, arm, judge

from ablate.trial.free_run import Begun
from ablate.trial.rerun import Rerun
from ablate.trial.reruns import Reruns


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def rows(root: Path, architecture: str) -> list[Row]:
    found = judge(root, architecture, arm({"onednn": False}), batches=3, audit=3).rows
    return [{name: value for name, value in row.items() if name != "trial_id"} for row in found]


@pytest.mark.parametrize(
    ("architecture", "fewer"),
    [
        ("Mlp", 2),  # the arm's own code, and the first step of the free run
        pytest.param("BatchNorm", 2, marks=pytest.mark.slow),
        pytest.param("Clipped", 1, marks=pytest.mark.slow),  # what its passes change in its own state is not kept
    ],
)
def test_one_pass_for_two_and_a_free_run_that_goes_on_change_no_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, architecture: str, fewer: int
) -> None:
    steps = []
    plain = Rerun.step
    monkeypatch.setattr(Rerun, "step", lambda *a, **k: steps.append(1) or plain(*a, **k))
    shared = rows(tmp_path / "shared", architecture)
    few = len(steps)
    monkeypatch.setattr(Reruns, "_like_a_reference", lambda self: False)
    monkeypatch.setattr(Begun, "of", lambda *_: None)
    assert rows(tmp_path / "apart", architecture) == shared
    assert (len(steps) - few) - few == 2 * fewer  # in each of two arms; simulations, if any, are made both times
