"""Preparation: the same initial weights whatever the shell, data checked before any trial, faults told in words."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from spec_factory import HERE, make_spec

from ablate.design.trial_spec import Numerics
from ablate.trial.environment import process_environment
from ablate.trial.prepare import REFERENCE, Request, model_key


def prepare(folder: Path, trainable: str, **changes: Any) -> dict[str, Any]:
    """Run preparation as a launch does; return its last line."""
    spec = make_spec(f"small_trainables:{trainable}", **changes)
    workers = spec.numerics.workers
    request = Request(specs=(spec,), initial=str(folder / "initial"), search=(HERE,), workers=workers)
    done = subprocess.run(
        [sys.executable, "-m", "ablate.trial.prepare"],
        input=request.model_dump_json(),
        env=process_environment(REFERENCE, os.environ),
        capture_output=True,
        text=True,
        check=True,
    )
    last = json.loads(done.stdout.splitlines()[-1])
    if "prepared" in last:
        last["weights"] = last["prepared"]["weights"][model_key(spec)]
    return last


def test_weights_are_the_same_whatever_the_shell_had_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = set()
    for capability, threads in (("default", "1"), ("avx2", "2")):
        monkeypatch.setenv("ATEN_CPU_CAPABILITY", capability)
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        made.add(prepare(tmp_path / capability, "Line")["weights"])
    assert len(made) == 1


def test_both_kinds_of_trainable_get_the_same_weights_and_blocks_get_others(tmp_path: Path) -> None:
    structured, function = prepare(tmp_path, "Line"), prepare(tmp_path, "function_line")
    assert structured["weights"] == function["weights"]
    assert prepare(tmp_path, "Line", block=1)["weights"] != structured["weights"]
    assert len(list((tmp_path / "initial").iterdir())) == 2


def test_a_function_that_asks_for_no_weights_has_none(tmp_path: Path) -> None:
    assert prepare(tmp_path, "function_too_few")["weights"] is None


def test_a_constructor_that_raises_is_told_with_its_last_lines(tmp_path: Path) -> None:
    said = prepare(tmp_path, "Line", settings={"nonsense": 1})
    assert "TypeError: Line.__init__() got an unexpected keyword argument 'nonsense'" in said["trace"]


def test_bad_data_keep_their_own_words(tmp_path: Path) -> None:
    said = prepare(tmp_path, "BadData")
    assert said["exit_code"] == 2
    assert said["error"] == [
        {"where": "digits.npz", "found": "is missing", "allowed": "", "nearest": "", "advice": "Fetch it."}
    ]


@pytest.mark.parametrize(
    ("trainable", "settings", "message"),
    [
        ("Slip", {"how": "prepare"}, ("prepare()", "returned None", "text: a hash of the data set")),
        ("Slip", {"how": "build"}, ("build()", "found a list", "a torch.nn.Module")),
        ("function_no_model", {}, ("ctx.initialise", "found a list", "a torch.nn.Module")),
    ],
)
def test_what_the_protocol_does_not_allow_is_bad_input(
    tmp_path: Path, trainable: str, settings: dict[str, Any], message: tuple[str, ...]
) -> None:
    said = prepare(tmp_path, trainable, settings=settings)
    assert said["exit_code"] == 2
    assert tuple(said["error"][0][name] for name in ("where", "found", "allowed")) == message


def test_several_workers_of_a_trainable_whose_loss_need_not_be_a_mean_are_refused(tmp_path: Path) -> None:
    said = prepare(tmp_path, "Line", numerics=Numerics(workers=2))
    assert said["error"][0]["found"] == "asked for several, but Line does not say independent_rows and mean_over_rows"


def test_nothing_that_a_trainable_prints_or_leaves_running_is_taken_for_an_answer(tmp_path: Path) -> None:
    assert prepare(tmp_path / "loud", "Loud")["weights"] == prepare(tmp_path / "quiet", "Line")["weights"]
