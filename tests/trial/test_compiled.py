"""``compile: true``: compiled, counted, and an error where nothing was."""

from __future__ import annotations

import json
import shutil
import uuid
from pathlib import Path
from typing import Any

import pytest
from spec_factory import make_task

from ablate.design.trial_spec import Numerics
from ablate.record.journal import read_journal
from ablate.record.paths import StorePaths
from ablate.trial import compiled
from ablate.trial.effect import ArmNotInEffect
from ablate.trial.isolation import Isolation
from ablate.trial.task import TrialEnd

COMPILE = Numerics(compile=True)


def test_without_it_the_function_is_itself() -> None:
    assert compiled.maybe_compiled(len, Numerics()) is len
    assert compiled.compile_columns(Numerics()) == {}
    compiled.check_compiled(Numerics())


def test_nothing_compiled_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "compile_columns", lambda numerics: {"compiled_graphs": 0})
    with pytest.raises(ArmNotInEffect) as caught:
        compiled.check_compiled(COMPILE)
    assert str(caught.value) == (
        "compile: asked for true, but torch.compile had made no graph when the first batch ended\n"
        "    A function trainable passes its loss function through ctx.compile, once, before its loop; "
        "code that torch.compile cannot follow at all runs as written."
    )


def isolated(root: Path, trainable: str) -> tuple[TrialEnd, dict[str, Any], list[float]]:
    """Run in a process of its own: torch.compile changes this one for good."""
    isolation = Isolation(uuid.uuid4().hex)
    try:
        task = make_task(root, f"small_trainables:{trainable}", numerics=COMPILE)
        end = isolation.run(task)
    finally:
        isolation.close()
    paths = StorePaths(root)
    columns = json.loads(paths.trial_json(task.spec.trial_id, 1).read_text())
    return end, columns, read_journal(paths.rows(task.spec.trial_id, 1)).rows["loss"].tolist()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler for the CPU")
@pytest.mark.parametrize("trainable", ["Line", "function_compiled_line"])
def test_a_compiled_trial_says_how_many_graphs_it_made(tmp_path: Path, trainable: str) -> None:
    from tests.trial.test_runner import by_hand

    end, columns, losses = isolated(tmp_path, trainable)
    assert end.status == "done", end.error
    assert columns["compiled_graphs"] >= 1
    assert columns["graph_breaks"] >= 0
    # numerical: 15 products summed, four steps of the same training
    assert losses == pytest.approx(by_hand(4), rel=1e-5)


@pytest.mark.slow
def test_a_function_trainable_that_compiles_nothing_fails(tmp_path: Path) -> None:
    end, _, losses = isolated(tmp_path, "function_line")
    assert end.kind == "code"
    assert "compile: asked for true, but torch.compile had made no graph" in end.error
    assert losses == []
