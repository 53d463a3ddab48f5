"""The grid key ``probes``: after how many batches weights are kept, and what it costs to look at their curvature."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from ablate.design.cross import trials
from ablate.design.extend import differences
from ablate.design.plan import plan
from ablate.design.plan_table import render
from ablate.design.probes import forecast_probes
from ablate.design.resolve import TrainableSource, check_settings
from ablate.design.schema import grid_schema
from ablate.design.spec import GridSpec
from ablate.design.trial_spec import CurvaturePlan, ProbePlan

OPTIONS = "at, batch, k, steps, density, dtype, device, mode, surface"


def test_nothing_is_looked_at_unless_asked_for(load):
    grid = load("")
    assert not grid.probes
    assert not any(ProbePlan().covers(batches) for batches in range(101))
    assert forecast_probes(grid, trials(grid)) is None


def test_last_is_the_number_of_batches_and_each_stands_there_once(load):
    grid = load("probes: {curvature: {at: [last, 50, 0, 50, 100]}}\n")
    assert grid.probes == ProbePlan(curvature=CurvaturePlan(at=(0, 50, 100)))
    assert [batches for batches in range(102) if grid.probes.covers(batches)] == [0, 50, 100]
    assert trials(grid)[0].probes == grid.probes


def test_every_option_reaches_the_plan(load):
    options = "batch: 2, k: 3, steps: 40, density: 0, dtype: float32, device: cuda, mode: eval, surface: true"
    grid = load(f"probes: {{curvature: {{at: [0], {options}}}}}\n")
    assert grid.probes.curvature == CurvaturePlan(
        at=(0,), batch=2, k=3, steps=40, density=0, dtype="float32", device="cuda", mode="eval", surface=True
    )
    assert GridSpec.model_validate_json(grid.model_dump_json()) == grid


def test_a_spec_of_before_is_read(load):
    old = load("").model_dump(mode="json")
    del old["probes"]
    assert GridSpec.model_validate(old, strict=False).probes == ProbePlan()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "probes: {}",
            "6: probes.curvature: missing\n    allowed: a mapping: {at: [0, 50, last]} and options",
        ),
        ("probes: {curvature: {}}", "curvature.at: missing\n    allowed: a list of numbers of batches from 0, or last"),
        ("probes: {curvature: {at: []}}", "at: found an empty list\n    allowed: a list of numbers of batches from 0"),
        ("probes: {curvature: {at: [0, 101]}}", "found 101\n    allowed: 0 to 100, or last"),
        (
            "probes: {curvature: {at: [-1]}}",
            "found -1 (a whole number)\n    allowed: a number of batches trained on: a whole number from 0, or last",
        ),
        (
            "probes: {curvatur: {at: [0]}}",
            "unknown key \"curvatur\"\n    did you mean 'curvature'?\n    allowed: curvature",
        ),
        (
            "probes: {curvature: {at: [0], step: 5}}",
            f"unknown key \"step\"\n    did you mean 'steps'?\n    allowed: {OPTIONS}",
        ),
        ("probes: {curvature: {at: [0], batch: 0}}", "batch: found 0 (a whole number)\n    allowed: a whole number"),
        ("probes: {curvature: {at: [0], k: 0}}", "allowed: a whole number from 1: eigenvalues at each end"),
        ("probes: {curvature: {at: [0], steps: 0}}", "allowed: a whole number from 1: most dimensions"),
        ("probes: {curvature: {at: [0], density: -1}}", "allowed: a whole number from 0: random starts"),
        ("probes: {curvature: {at: [0], dtype: float16}}", "allowed: float64 or float32"),
        ("probes: {curvature: {at: [0], device: gpu}}", "allowed: cpu or cuda"),
        ("probes: {curvature: {at: [0], mode: test}}", "allowed: train or eval"),
        ("probes: {curvature: {at: [0], surface: 1}}", "allowed: true or false"),
    ],
)
def test_messages(complaints, text, message):
    assert any(message in problem for problem in complaints(text + "\n"))


def test_a_function_trainable_cannot_be_probed(load):
    """Its loss is inside its loop; nobody else can compute it."""
    source = TrainableSource(Path("model.py"), "train", "function", {}, True, 1)
    (problem,) = check_settings(source, load("probes: {curvature: {at: [0]}}\n"))
    assert "probes: train is a function with a loop of its own, so nobody else can compute its loss" in str(problem)
    assert "allowed: a structured trainable" in str(problem)
    assert "write it as a class" in str(problem)
    assert check_settings(source, load("")) == []
    structured = TrainableSource(Path("model.py"), "Model", "structured", {}, True, 1)
    assert check_settings(structured, load("probes: {curvature: {at: [0]}}\n")) == []


def test_a_store_takes_another_plan(load):
    """What is looked at changes no loss, so trials recorded under another plan are the same trials."""
    one, two = load("probes: {curvature: {at: [0, last]}}\n"), load("")
    assert differences(one, two) == []
    assert [trial.trial_id for trial in trials(one)] == [trial.trial_id for trial in trials(two)]


def test_an_editor_is_told_the_options():
    (probes, _) = grid_schema()["properties"]["probes"]["anyOf"]
    found = probes["properties"]["curvature"]
    assert list(found["properties"]) == OPTIONS.split(", ")
    assert found["required"] == ["at"]
    assert all(option["description"] for option in found["properties"].values())
    assert found["properties"]["mode"]["enum"] == ["train", "eval"]


def test_a_plan_counts_the_probes_and_their_cost(load):
    grid = load(
        """\
        arms: {one: {}, two: {onednn: false}}
        probes: {curvature: {at: [0, 50, last], steps: 40, density: 2, surface: true}}
        """
    )
    made = plan(grid, cores=1)
    assert made.probes is not None
    assert (made.probes.trials, made.probes.snapshots, made.probes.maps) == (12, 36, 6)
    assert made.probes.products == 2 * 40 + 3  # two Krylov spaces, and what is looked at beside them
    assert made.probes.gradients == pytest.approx(2.6 * 83)
    out = io.StringIO()
    render(made, Console(file=out, width=400))
    assert "probes: 36 snapshots of 12 trials, for each player at most 83 products" in out.getvalue()
    assert made.probes.basis_bytes == 8 * 41
    memory = "and at most 0.33 GB of memory for each million of its parameters, beside its graph"
    assert f"as 216 gradients of the probe set, {memory}; 6 maps of 225 losses" in out.getvalue()


def test_a_probe_set_of_several_batches_is_streamed_and_dearer(load):
    grid = load("probes: {curvature: {at: [0], batch: 2}}\n")
    found = forecast_probes(grid, trials(grid))
    assert found is not None
    assert found.gradients == pytest.approx(3.4 * found.products)
