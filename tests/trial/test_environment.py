"""A trial's environment holds the arm's numeric variables and no others; what took effect is read back."""

from __future__ import annotations

import os

import pytest

from ablate.design.trial_spec import Numerics
from ablate.trial.environment import arm_environment, process_environment
from ablate.trial.numerics import ArmNotInEffect, InEffect, verify

FOUND = InEffect(threads_set=1, capability="AVX2", onednn=True, deterministic=False, device="cpu")


def test_numeric_variables_of_the_shell_are_dropped() -> None:
    inherited = {"OMP_NUM_THREADS": "7", "MKL_DEBUG": "1", "ATEN_CPU_CAPABILITY": "avx2", "HOME": "/h", "PATH": "/p"}
    made = process_environment(Numerics(threads=2), inherited)
    assert made["OMP_NUM_THREADS"] == made["MKL_NUM_THREADS"] == "2"
    assert made["CUDA_VISIBLE_DEVICES"] == ""
    assert made["HOME"] == "/h"
    assert "MKL_DEBUG" not in made
    assert "ATEN_CPU_CAPABILITY" not in made


def test_the_arms_own_variables_win() -> None:
    made = process_environment(Numerics(env={"ONEDNN_MAX_CPU_ISA": "AVX2", "MINE": "x"}), {"MINE": "y"})
    assert made["ONEDNN_MAX_CPU_ISA"] == "AVX2"
    assert made["MINE"] == "x"


def test_only_what_bears_on_arithmetic_is_recorded() -> None:
    made = process_environment(Numerics(env={"ONEDNN_VERBOSE": "0"}), {"HOME": "/h", "SECRET_TOKEN": "abc"})
    recorded = arm_environment(made)
    assert "SECRET_TOKEN" not in recorded
    assert recorded["ONEDNN_VERBOSE"] == "0"


def test_what_took_effect_passes() -> None:
    verify(Numerics(), FOUND)


@pytest.mark.parametrize(
    ("asked", "found", "words"),
    [
        (Numerics(threads=2), FOUND, "threads: asked for 2, but this process has 1"),
        (Numerics(onednn=False), FOUND, "onednn: asked for False, but this process has True"),
        (Numerics(deterministic=True), FOUND, "deterministic: asked for True, but this process has False"),
        (
            Numerics(env={"ATEN_CPU_CAPABILITY": "avx512"}),
            FOUND,
            "env.ATEN_CPU_CAPABILITY: asked for avx512, but this process has avx2",
        ),
    ],
)
def test_an_arm_that_did_not_take_effect_is_refused(
    asked: Numerics, found: InEffect, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key, value in asked.env.items():
        monkeypatch.setenv(key, value)
    with pytest.raises(ArmNotInEffect) as caught:
        verify(asked, found)
    assert words in str(caught.value)
    assert "The machine or the torch build cannot do it" in str(caught.value)


def test_a_variable_that_is_not_set_is_named() -> None:
    os.environ.pop("ONEDNN_JIT_DUMP", None)
    with pytest.raises(ArmNotInEffect, match=r"env\.ONEDNN_JIT_DUMP: asked for 1, but this process has unset"):
        verify(Numerics(env={"ONEDNN_JIT_DUMP": "1"}), FOUND)
