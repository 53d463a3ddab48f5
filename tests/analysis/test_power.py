from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from synthetic import Told, arm, block_losses, generator, grid, write_run

from ablate.design.forecast import ContrastPower
from ablate.design.plan import plan
from ablate.design.spec import Contrast, Margin
from ablate.record.timing import timed_trials
from analysis.blocks_needed import for_equivalence
from analysis.gap import gap
from analysis.power import differences, power
from analysis.smallest_gap import smallest_gap, spread_interval

TRIALS = 20_000


def found_by_t(true_gap, blocks, level):
    """The share of simulated studies whose t test finds the gap; standard error at 0.8 with 20000 studies: 0.0028."""
    draws = generator("power", blocks).standard_normal((TRIALS, blocks)) + true_gap
    return float(np.mean(stats.ttest_1samp(draws, 0.0, axis=1).pvalue < level))


@pytest.mark.parametrize(("blocks", "family"), [(6, 1), (8, 2), (20, 3)])
def test_the_smallest_gap_is_found_four_times_in_five(blocks, family):
    smallest = smallest_gap(1.0, blocks, family)
    assert abs(found_by_t(smallest, blocks, 0.05 / family) - 0.8) < 4 * 0.0028
    # a planted bias of a tenth is seen
    assert abs(found_by_t(1.1 * smallest, blocks, 0.05 / family) - 0.8) > 4 * 0.0028


def test_it_scales_with_the_spread_and_falls_with_the_blocks():
    assert smallest_gap(2.0, 10, 1) == 2 * smallest_gap(1.0, 10, 1)
    gaps = [smallest_gap(1.0, blocks, 1) for blocks in (6, 7, 10, 100, 10_000)]
    assert gaps == sorted(gaps, reverse=True)
    assert smallest_gap(1.0, 10, 3) > smallest_gap(1.0, 10, 1)


@pytest.mark.parametrize(("blocks", "family"), [(0, 1), (1, 1), (5, 1), (6, 2)])
def test_too_few_blocks_find_nothing(blocks, family):
    assert smallest_gap(1.0, blocks, family) is None


def test_the_interval_of_a_spread_covers():
    draws = generator("spread").standard_normal((TRIALS, 6))
    ends = np.array([spread_interval(sd, 6) for sd in np.std(draws, axis=1, ddof=1)])
    covered = np.mean((ends[:, 0] < 1) & (ends[:, 1] > 1))
    assert abs(covered - 0.95) < 4 * 0.0015  # standard error with 20000 draws


ARMS = {"a": arm(), "b": arm(x=1), "same": arm(x=2), "a-again": arm(2, "a")}
SPEC = grid(ARMS, margin=Margin(value=5.0, unit="percent"))


def tell(trial):
    factor = 1 + 0.02 * generator("noise", trial.block).standard_normal() if trial.arm == "b" else 1.0
    return Told(block_losses(trial.block, scale=factor))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return write_run(tmp_path_factory.mktemp("runs") / "synthetic", SPEC, tell)


def planned(spec):
    return plan(spec, cores=8)


def test_the_power_of_a_plan_by_a_past_run(run):
    larger = SPEC.model_copy(update={"blocks": tuple(range(12))})
    arms = {name: one.model_copy(update={"blocks": larger.blocks}) for name, one in ARMS.items()}
    larger = larger.model_copy(update={"arms": arms})
    found, same = power(run, larger, planned(larger))
    pairs = gap(run).contrasts[0].pairs
    reference, other = (np.array([getattr(one, side) for one in pairs]) for side in ("reference", "other"))
    sd = float(np.std(other - reference, ddof=1))
    smallest = smallest_gap(sd, 12, 2)
    assert found == ContrastPower(
        label="b against a",
        blocks=12,
        seen_blocks=6,
        sd=sd,
        sd_interval=spread_interval(sd, 6),
        smallest_gap=smallest,
        smallest_gap_percent=100 * smallest / float(np.mean(reference)),
        margin_blocks=for_equivalence(reference, other, SPEC.margin),
    )
    assert same == ContrastPower(
        label="same against a",
        blocks=12,
        seen_blocks=6,
        note="the run has no spread to plan with: every block has one gap",
    )


def test_what_the_run_cannot_tell(run):
    fewer = grid({"a": arm(3), "b": arm(3, x=1), "new": arm(3, x=3)}, factors={"f": (1, 2)})
    contrasts = (*fewer.contrasts, Contrast(factor="f", levels=(1, 2)))
    fewer = fewer.model_copy(update={"contrasts": contrasts})
    found = power(run, fewer, planned(fewer))
    assert [one.note for one in found] == [
        "3 blocks find no gap, however large: their smallest p is not below the level",
        "the run has no arm new",
        "the run has no factor f",
    ]
    assert found[0].sd is not None
    assert found[0].margin_blocks is None


def test_other_cells_are_said(run):
    crossed = grid({"a": arm(), "b": arm(x=1)}, factors={"f": (1, 2)})
    assert power(run, crossed, planned(crossed))[0].note == "a block averages 1 cells there, 2 here"


def test_one_block_has_no_spread(tmp_path):
    spec = grid({"a": arm(), "b": arm(x=1)})
    run = write_run(tmp_path / "run", spec, lambda trial: tell(trial) if not trial.block else Told(np.ones(1), None))
    assert power(run, spec, planned(spec))[0].note == "the run has 1 block of it; a spread needs 2"


def test_differences_are_said():
    assert differences(SPEC, SPEC) == ()
    other = SPEC.model_copy(update={"batches": 100, "settings": {"lr": 1}})
    assert differences(SPEC, other) == ("the past run is not the same: batches 60 there, 100 here; setting lr differs",)


def test_the_times_of_a_run(run):
    timed = timed_trials(run)
    assert sorted({one.arm for one in timed}) == ["a", "a-again", "b", "same"]
    assert len(timed) == 20
    assert all(one.durations == [float(np.float32(0.001))] * 60 for one in timed)
