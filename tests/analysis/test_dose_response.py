"""The response to noise in the gradients: a planted slope is found with its size, none is not made up."""

from __future__ import annotations

import io
import json
import math

import numpy as np
import pytest
from rich.console import Console
from synthetic import BATCHES, Told, arm, block_losses, generator, grid, write_run

from ablate.design.trial_spec import Numerics
from analysis.dose_response import dose_words, slope_through_origin
from analysis.gap import gap
from analysis.gap_table import print_gap

ULPS = {"none": 0.0, "few": 1.0, "some": 100.0, "many": 65536.0}
BLOCKS = 12
SPREAD = 1e-3


def noisy_arm(ulps, **options):
    return arm(BLOCKS, **options).model_copy(update={"numerics": Numerics(gradient_noise=ulps)})


ARMS = {name: noisy_arm(ulps) for name, ulps in ULPS.items()}


def standard_error():
    """Of the mean slope, when outcomes scatter by SPREAD: the arm without noise scatters in every difference."""
    x = np.log10(1 + np.array(list(ULPS.values())[1:]))
    return SPREAD * math.sqrt(1 / (x @ x) + (x.sum() / (x @ x)) ** 2) / math.sqrt(BLOCKS)


def told(slope, spread=SPREAD):
    """Tell losses that all rise by ``slope`` per tenfold of 1 + ulps, each trial's scattered by ``spread``."""

    def tell(trial):
        x = math.log10(1 + trial.numerics.gradient_noise)
        own = spread * generator("dose", trial.arm, trial.block).standard_normal()
        return Told(block_losses(trial.block) + slope * x + own)

    return tell


@pytest.fixture
def analyse(tmp_path):
    def run(arms, tell):
        return gap(write_run(tmp_path / "run", grid(arms), tell))

    return run


def printed(report):
    out = io.StringIO()
    print_gap(report, Console(file=out))
    return " ".join(out.getvalue().split())


@pytest.mark.parametrize("sign", [1, -1])
def test_a_planted_slope_is_found_with_its_size(analyse, sign):
    """Statistical: 12 blocks, a slope of 10 standard errors; found, and to within 4 of them."""
    planted = sign * 10 * standard_error()
    report = analyse(ARMS, told(planted))
    found = report.dose_response
    assert (found.reference, found.n, [dose.arm for dose in found.doses]) == ("none", 12, ["few", "some", "many"])
    assert abs(found.slope - planted) < 4 * standard_error()
    assert found.interval.excludes(0.0)
    assert found.test.p == 2 / 2**12
    assert found.interval.low < found.slope < found.interval.high
    assert f"it {'rises' if sign > 0 else 'falls'} with the noise" in printed(report)
    assert report.to_json()["dose_response"]["slope"] == found.slope
    json.dumps(report.to_json(), allow_nan=False)


def test_no_slope_is_not_made_up(analyse):
    """Statistical: 12 blocks; within 4 standard errors of 0. Equal outcomes give exactly 0 and no trend."""
    found = analyse(ARMS, told(0.0)).dose_response
    assert abs(found.slope) < 4 * standard_error()


def test_three_blocks_claim_no_trend_however_clear(analyse):
    """Their interval is far from 0, and covers the truth 72 % of the time only; the test's smallest p is 0.25."""
    report = analyse(ARMS, lambda trial: told(0.01)(trial) if trial.block < 3 else Told(np.array([]), status=None))
    assert report.dose_response.interval.excludes(0.0)
    assert "per tenfold of 1 + ulps (p = 0.25): no trend is shown." in printed(report)


def test_equal_outcomes_have_a_slope_of_exactly_0(analyse):
    report = analyse(ARMS, told(0.0, spread=0.0))
    found = report.dose_response
    assert (found.slope, found.interval.low, found.interval.high) == (0.0, 0.0, 0.0)
    assert (
        "Dose-response (noise of 0, 1, 100, 65,536 ulps in the gradients, 12 blocks): the outcome changes by 0 [0, 0] "
        "per tenfold of 1 + ulps (p = 1): no trend is shown. Means less that of none: 0 (few), 0 (some), 0 (many)."
    ) in printed(report)


def test_a_slope_by_hand():
    x = np.array([1.0, 2.0, 4.0])
    y = np.array([[3.0, 0.0], [6.0, 0.0], [12.0, 21.0]])  # a line of slope 3; one outlier: 84 / 21
    assert slope_through_origin(x, y).tolist() == [3.0, 4.0]


def test_a_block_without_an_outcome_at_one_dose_is_left_out(analyse):
    def tell(trial):
        if (trial.arm, trial.block) == ("some", 3):
            return Told(block_losses(trial.block)[: BATCHES // 2], status="failed", error="ValueError: gone")
        return told(1e-3)(trial)

    assert analyse(ARMS, tell).dose_response.n == 11


@pytest.mark.parametrize(
    ("kept", "words"),
    [
        (0, "0 blocks): no block has an outcome at every dose."),
        (2, "per tenfold of 1 + ulps; no interval: 2 of at least 3 blocks."),
    ],
)
def test_too_few_blocks_are_said(analyse, kept, words):
    def tell(trial):
        return told(1e-3)(trial) if trial.block < kept else Told(np.array([]), status=None)

    assert words in dose_words(analyse(ARMS, tell).dose_response)


@pytest.mark.parametrize(
    "arms",
    [
        {"none": ARMS["none"], "some": ARMS["some"]},  # one dose: its contrast says all there is
        {"few": ARMS["few"], "some": ARMS["some"], "many": ARMS["many"]},  # nothing without noise
        {**ARMS, "other": arm(BLOCKS, way=2)},  # an arm that differs in more
    ],
)
def test_a_study_of_something_else_has_none(analyse, arms):
    report = analyse(arms, told(0.0))
    assert report.dose_response is None
    assert "Dose-response" not in printed(report)


def test_controls_are_no_doses(analyse):
    again = noisy_arm(100.0, repeat="some")
    assert len(analyse({**ARMS, "again": again}, told(0.0)).dose_response.doses) == 3
