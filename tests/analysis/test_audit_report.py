"""What ``ablate audit`` makes of a store: each arm, each contrast, what a file adds, and the worst of all first."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from rich.console import Console
from synthetic import Told, arm, audit, block_losses, changed, clean, grid, overwritten, write_run

from ablate.design.spec import Contrast
from ablate.design.trial_spec import Numerics
from analysis.audit_report import Comparison, audit_report
from analysis.audit_text import print_audit

ARMS = {"plain": arm(), "changed": arm(way=2)}
GRADIENT = {"check": "distance", "quantity": "gradient", "name": "conv1.weight", "batch_index": 0}
BUG = {"verdict": "bug", "error": 0.02, "own_error": 0.02, "own_bound": 1e-14}
VAGUE = {"verdict": "unjudged", "detail": "its reference is not finite"}
HERE = Comparison("plain", "ROUNDING", "8 of 9 values have equal bits")


@pytest.fixture
def told(tmp_path):
    def run(rows=None, arms=ARMS, part=True, spec=None, guard=(), **more):
        def tell(trial):
            own = audit() if rows is None or trial.arm != "changed" else rows
            losses = block_losses(trial.block)
            if part and (trial.arm == "changed" or trial.factors.get("size") == 2):
                losses = losses * (1 + 1e-6)
            seen = guard if trial.arm == "changed" else ()
            return Told(losses, audits=[*(clean(batch) for batch in (0, 1, 2, 50)), *seen, *own])

        report = audit_report(write_run(tmp_path / "run", spec or grid(arms), tell), **more)
        json.dumps(report.to_json(), allow_nan=False)
        stream = io.StringIO()
        print_audit(report, Console(file=stream, width=100))
        assert max(map(len, stream.getvalue().splitlines())) <= 100
        return report, " ".join(stream.getvalue().split())

    return run


def test_clean_arms_are_rounding_and_first_words_say_so(told):
    report, text = told()
    assert (report.cause, [one.cause for one in report.arms]) == ("ROUNDING", ["ROUNDING", "ROUNDING"])
    assert text.startswith("ROUNDING: in ")
    assert "changed against plain: ROUNDING: losses first differ at batch 0; rounding explains" in text


def test_noise_that_the_grid_asks_for_is_declared_and_no_cause_to_worry(told):
    noisy = arm(way=2).model_copy(update={"numerics": Numerics(gradient_noise=100.0)})
    report, text = told(arms={"plain": arm(), "changed": noisy})
    assert report.cause == "ROUNDING"
    assert "changed against plain: declared: the grid adds noise to the gradients" in text
    assert "not audited" not in text


def test_levels_of_a_factor_are_declared(told):
    contrast = Contrast(factor="size", levels=(1, 2))
    report, text = told(spec=grid({"plain": arm()}, factors={"size": (1, 2)}, contrasts=(contrast,)))
    assert report.cause == "ROUNDING"
    assert "declared: levels of a factor differ by design" in text


def test_a_fault_says_what_where_and_how_much(told):
    _, text = told(changed(audit(), GRADIENT, **BUG))
    assert text.startswith("BUG: in arm changed, the gradient of conv1.weight is wrong at batch 0, ")
    assert "from float64" in text
    assert "changed against plain: BUG: arm changed has a fault" in text


def test_an_overwritten_tensor_is_the_first_thing_said(told):
    report, text = told(changed(audit(), GRADIENT, **BUG), guard=overwritten(0))
    assert text.startswith("BUG: in arm changed, this tensor was overwritten between forward and backward: ")
    assert len(report.arms[1].faults) == 2


def test_what_could_not_be_judged_is_named(told):
    report, text = told(changed(audit(), GRADIENT, **VAGUE))
    assert report.cause == "UNKNOWN"
    assert text.startswith("UNKNOWN: not everything could be judged (changed)")
    assert "its reference is not finite" in text


@pytest.mark.parametrize(
    ("rows", "cause", "words"),
    [
        (None, "ROUNDING", "but the gradient of w is not; rounding explains every distance from float64"),
        (
            changed(audit(), GRADIENT, **VAGUE),
            "UNKNOWN",
            "but the gradient of w is not; the audit of arm changed could not",
        ),
    ],
)
def test_equal_losses_are_no_equal_arms_if_a_value_differs(told, rows, cause, words):
    report, text = told(rows, part=False, unequal=lambda contrast: "the gradient of w")
    assert report.contrasts[0].cause == cause
    assert words in text


def test_equal_losses_and_values_are_bitwise_equal(told):
    report, _ = told(part=False)
    assert report.contrasts[0].cause == "BITWISE EQUAL"


def test_the_first_element_is_asked_for_where_inputs_differ_only(told, tmp_path):
    asked = []
    told(differs=lambda contrast: asked.append(contrast) or "x[0] is 1 in a, 2 in b")
    assert asked == []


@pytest.mark.parametrize("cause", ["BUG", "CONFOUNDED", "UNKNOWN"])
def test_the_worst_of_a_file_comes_first(told, cause):
    worse = Comparison("changed", cause, "the words for it")
    report, text = told(against=[HERE, worse], made_on="torch 1")
    assert report.cause == cause
    assert text.startswith(f"{cause}: ")
    assert "changed" in text.partition(" arm ")[0]
    assert "Against the file (torch 1)" in text
    assert np.isfinite(report.arms[0].used)
