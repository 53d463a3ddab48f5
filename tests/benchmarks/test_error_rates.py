"""The pieces of ``benchmarks/error_rates.py`` do what they say, on few studies."""

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ablate.design.attainable import holm as planned_holm
from analysis.bca import COVERAGE
from analysis.headline import WORST_FIRST
from analysis.holm import holm
from analysis.sign_flip import EXACT_UP_TO, RESAMPLES, sign_flip
from benchmarks import simulated_machines as machines
from benchmarks import simulated_studies as studies
from benchmarks.simulated_studies import BLOCKS, DISTRIBUTIONS, Rate

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize("blocks", [2, 6, 7, 10, EXACT_UP_TO])
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_p_of_many_studies_is_the_analysis_own(name, blocks):
    values = studies.differences(name, blocks, 1, 5)
    values[0] = np.round(values[0])  # ties, and possibly zeros
    values[0, 0] += not values[0].any()
    expected = [sign_flip(row).p for row in values]
    assert list(studies.exact_p(values)) == pytest.approx(expected, abs=1e-12)


def test_p_of_many_blocks_is_what_the_analysis_samples():
    values = studies.differences("normal", 20, 2, 3)
    for p, row in zip(studies.exact_p(values), values, strict=True):
        assert sign_flip(row).p == pytest.approx(p, abs=5 * math.sqrt(p * (1 - p) / RESAMPLES) + 2 / RESAMPLES)


def test_holm_of_a_plan_is_that_of_the_analysis():
    for p_values in ([0.01, 0.2, 0.03], [0.02, 0.02, 0.02], [0.9, 0.8, 0.7]):
        assert planned_holm(p_values) == pytest.approx(holm(p_values))


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_differences_have_mean_0_and_standard_deviation_1_and_their_seed(name):
    values = studies.differences(name, 20, 3, 20_000)
    # the heavy tail has no kurtosis: its variance converges slowly, hence the sixth; means to 5 standard errors
    assert abs(values.mean()) < 5 / math.sqrt(values.size)
    assert values.std() == pytest.approx(1, abs=1 / 6)
    again, other = studies.differences(name, 20, 3, 20_000), studies.differences(name, 20, 4, 20_000)
    assert (values == again).all()
    assert (values != other).any()


@pytest.mark.parametrize(("blocks", "level"), [(5, 0.0), (6, 2 / 64), (10, 50 / 1024), (20, 52428 / 2**20)])
def test_attainable_level(blocks, level):
    assert studies.attainable(blocks) == level


def test_a_rate_exceeds_a_level_by_more_than_3_standard_errors_only():
    assert (Rate(5, 100).share, str(Rate(5, 100))) == (0.05, "5.0 ± 2.2 %")
    assert not Rate(11, 100).exceeds(0.05)  # .05 + 3 * .0218 = .1154
    assert Rate(12, 100).exceeds(0.05)
    assert Rate(1, 100).exceeds(0.0)
    assert not Rate(0, 100).exceeds(0.0)


@pytest.mark.parametrize("title", studies.TRUTHS)
def test_every_study_gets_a_headline_that_outcomes_can_give(title):
    truth = studies.TRUTHS[title]
    found = studies.headlines("normal", 6, truth, "ROUNDING", 5, 20)
    assert sum(found.values()) == 20
    assert set(found) <= {"SYSTEMATIC", "CHAOS", "INCONCLUSIVE"} <= set(WORST_FIRST)
    assert set(studies.headlines("normal", 6, truth, "BUG", 5, 5)) == {"BUG"}
    assert set(studies.headlines("normal", 6, truth, "UNKNOWN", 5, 20)) <= {"SYSTEMATIC", "EQUIVALENT", "INCONCLUSIVE"}


def test_planted_gaps_are_seen():
    values = studies.differences("normal", 10, 6, 50)
    assert studies.false_difference(values + 10).share == 1
    assert studies.claims_equivalence(values, 0.0, 10.0).share == 1
    assert studies.claims_equivalence(values, 10.0, 1.0).share == 0
    assert studies.false_difference_of_any(np.vstack([values, values + 10, values]), 3).studies == 50
    assert studies.mean_coverage(values[:5] + 10, 1).share == 0
    assert studies.planned_for_difference(1.0) == studies.planned_for_equivalence(1.0) == 13


@pytest.mark.parametrize("title", machines.WORLDS)
def test_machines_are_drawn_as_their_world_says(title):
    world = machines.WORLDS[title]
    study = machines.draw(world, 6, np.random.default_rng(0))
    assert len(study.values) == len(study.kind) == 6 * sum(world.machines)
    assert {int(m) for m in study.machine[study.kind == 0]} == set(range(world.machines[0]))
    rates = machines.rejections(world, 6, 0, 2)
    assert len(rates) == len(machines.TESTS)
    assert all(rate.studies == 2 for rate in rates)


def test_a_planted_kind_effect_is_seen_by_every_test():
    study = machines.draw(machines.World(effect=50.0), 10, np.random.default_rng(1))
    for test in machines.TESTS.values():
        assert test(study) < 0.05


def test_the_page_states_how_it_was_made(tmp_path):
    page = tmp_path / "new" / "statistics.md"
    command = [sys.executable, "benchmarks/error_rates.py", "--studies", "2", "--seed", "5", "--processes", "1"]
    done = subprocess.run(
        [*command, "--write", str(page)], cwd=ROOT, env={"PYTHONPATH": "."}, capture_output=True, text=True, check=True
    )
    text = page.read_text()
    assert done.stdout.strip() == text.strip()
    assert "2 simulated studies a row, seed 5, on 20" in text
    assert f"--studies 2 --seed 5 --write {page}" in text
    for heading in ("Level", "Coverage", "Headlines", "Power", "Machines of two kinds"):
        assert f"\n## {heading}" in text
    for title in (*studies.TRUTHS, *machines.WORLDS):
        assert f"| {title} |" in text
    for blocks in BLOCKS:
        assert text.count(f"| normal | {blocks} |") >= 4  # levels, coverage, headlines, power
    for blocks in COVERAGE:
        assert f"| mean gap | skewed | {blocks} | 10 |" in text
