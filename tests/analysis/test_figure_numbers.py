"""The numbers that figures draw, against plain loops over what was told."""

import math
from itertools import pairwise

import numpy as np
import pytest
from synthetic import Told, arm, block_losses, generator, grid, write_run

from ablate.design.spec import Contrast, Margin
from analysis.divergence import Trace
from analysis.gap import gap
from analysis.gap_points import gap_points
from analysis.growth_curves import bin_edges, binned_difference, growth_curves
from analysis.loss_bands import loss_bands, quantiles
from analysis.outcome_points import machine_words, outcome_groups
from analysis.run_data import read_outcomes, read_trials

ARMS = {"plain": arm(), "changed": arm(way=2), "plain-again": arm(2, "plain")}


def told(trial):
    scale = 1.0 if trial.arm != "changed" else 1.1 + 0.01 * trial.block
    return Told(block_losses(trial.block) * scale)


@pytest.fixture
def run(tmp_path):
    return write_run(tmp_path / "run", grid(ARMS, margin=Margin(value=5.0, unit="percent")), told)


def test_bands_are_median_and_range_over_blocks(run):
    bands = {band.arm: band for band in loss_bands(run)}
    assert list(bands) == ["plain", "changed", "plain-again"]
    losses = np.stack([block_losses(block) for block in range(6)])
    assert np.array_equal(bands["plain"].middle, np.median(losses, axis=0))
    assert np.array_equal(bands["plain"].low, losses.min(axis=0))
    assert np.array_equal(bands["plain"].high, losses.max(axis=0))
    assert (bands["plain"].blocks, bands["plain-again"].blocks, bands["plain"].whole) == (6, 2, True)


def test_with_twenty_blocks_the_band_is_the_middle_90_percent(tmp_path):
    run = write_run(tmp_path / "run", grid({"plain": arm(20)}), told)
    (band,) = loss_bands(run)
    losses = np.stack([block_losses(block) for block in range(20)])
    assert not band.whole
    assert np.allclose(band.low, np.quantile(losses, 0.05, axis=0), rtol=1e-15, atol=0)


def test_bands_leave_out_what_is_not_finite_and_count_trials_that_ended_early(tmp_path):
    def tell(trial):
        base = block_losses(trial.block)
        if trial.block == 0:
            return Told(np.r_[base[:9], math.nan], status="diverged")
        return Told(base, status=None if trial.block == 1 else "done")

    (band,) = loss_bands(write_run(tmp_path / "run", grid({"plain": arm(4)}), tell))
    assert (band.blocks, band.short) == (3, 1)
    assert np.isfinite(np.r_[band.middle, band.low, band.high]).all()
    assert band.middle[30] == np.median([block_losses(2)[30], block_losses(3)[30]])


def test_bands_come_by_cell_in_the_grids_order(tmp_path):
    run = write_run(tmp_path / "run", grid({"b": arm(2), "a": arm(2, way=2)}, factors={"lr": (0.1, 0.01)}), told)
    found = [(band.arm, dict(band.cell)["lr"]) for band in loss_bands(run)]
    assert found == [("b", 0.1), ("b", 0.01), ("a", 0.1), ("a", 0.01)]


def test_a_run_without_trials_has_no_band(tmp_path):
    assert loss_bands(write_run(tmp_path / "run", grid(ARMS), lambda t: Told(np.empty(0), status=None))) == ()


def test_outcomes_come_by_machine(tmp_path):
    def tell(trial):
        return Told(block_losses(trial.block), hashes={"host": f"m{trial.block % 2}", "cpu_model": "i5"})

    run = write_run(tmp_path / "run", grid({"plain": arm(), "changed": arm(way=2)}), tell)
    trials, recorded = read_trials(run)
    machines = {row["trial_id"]: machine_words(row) for row in recorded.to_pylist()}
    groups = outcome_groups(run.grid, trials, read_outcomes(run, trials, recorded), machines)
    assert [(g.arm, g.machine, len(g.values), g.planned) for g in groups] == [
        ("plain", "m0, i5", 3, 6),
        ("plain", "m1, i5", 3, 6),
        ("changed", "m0, i5", 3, 6),
        ("changed", "m1, i5", 3, 6),
    ]
    assert groups[0].mean == np.mean(groups[0].values)
    assert groups[0].interval.low <= groups[0].mean <= groups[0].interval.high


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({}, ""),
        ({"host": "a", "cpu_model": "i5", "device": "cpu"}, "a, i5"),
        ({"host": "a", "cpu_model": "i5", "device": "NVIDIA H200"}, "a, i5, NVIDIA H200"),
        ({"host": "a", "device": '{"name": "NVIDIA H200", "memory": 1}'}, "a, NVIDIA H200"),
        ({"host": "a", "device": '["x"]'}, 'a, ["x"]'),
    ],
)
def test_a_machine_in_words(row, words):
    assert machine_words(row) == words


def test_gap_points_average_to_the_gap_and_carry_the_margin(run):
    report = gap(run)
    unit, points = gap_points(report.contrasts, run.grid.margin)
    assert unit == "percent"
    own, control = points
    assert (own.label, own.control, control.control) == ("changed against plain", None, "A/A")
    assert own.gap == pytest.approx(report.contrasts[0].effect.relative, rel=1e-12)
    assert own.margin == pytest.approx(0.05)
    assert len(own.values) == 6
    assert (own.low, own.high) == (
        report.contrasts[0].effect.relative_interval.low,
        report.contrasts[0].effect.relative_interval.high,
    )


def test_gap_points_are_in_the_outcomes_unit_where_a_percentage_has_no_meaning(tmp_path):
    spec = grid({"plain": arm(), "changed": arm(way=2)}, margin=Margin(value=0.5))
    run = write_run(tmp_path / "run", spec, lambda t: Told(block_losses(t.block) - 0.2 + 0.1 * (t.arm == "changed")))
    unit, (one,) = gap_points(gap(run).contrasts, spec.margin)
    assert (unit, one.margin) == ("absolute", 0.5)
    assert one.gap == pytest.approx(0.1)


def test_contrasts_without_a_block_have_no_points(tmp_path):
    run = write_run(tmp_path / "run", grid(ARMS), lambda t: Told(np.empty(0), status=None))
    assert gap_points(gap(run).contrasts, None) == ("percent", ())


@pytest.mark.parametrize("batches", [1, 2, 9, 10, 11, 1000, 123_456])
def test_bins_hold_every_batch_once(batches):
    edges = bin_edges(batches)
    assert edges[0] == 1
    assert edges[-1] == batches + 1
    assert np.all(np.diff(edges) >= 1)
    counts = np.histogram(np.arange(1, batches + 1), edges)[0]
    assert counts.min() >= 1
    assert counts.sum() == batches


def trace(losses):
    return Trace(np.arange(len(losses)), np.asarray(losses, dtype=np.float64))


def test_a_planted_growth_is_found_batch_by_batch():
    base = np.ones(50)
    other = base.copy()
    other[10:] += 1e-6 * np.arange(1, 41)
    found = binned_difference(trace(base), trace(other), bin_edges(50))
    assert found[:3] == pytest.approx([1e-6, 2e-6, 3e-6], rel=1e-4)
    assert binned_difference(trace(base), trace(base), bin_edges(50)) is None


def test_growth_is_finite_where_losses_are_huge_zero_or_not_finite():
    a = np.array([1.0, 1e308, 0.0, 0.0, math.inf, math.nan])
    b = np.array([1.5, -1e308, 0.0, 1.0, 1.0, 1.0])
    found = binned_difference(trace(a), trace(b), bin_edges(6))
    assert found[:4] == pytest.approx([1 / 3, 2.0, 0.0, 1.0])
    assert np.isnan(found[4])


def test_medians_over_bins_are_numpys_bit_for_bit():
    draws = generator("medians")
    a, b = draws.standard_normal((2, 3000))
    for lost in ((), (5, 1700)):
        a[list(lost)] = math.nan
        relative = np.abs(a / np.maximum(abs(a), abs(b)) - b / np.maximum(abs(a), abs(b)))
        edges = bin_edges(3000)
        inside = [relative[int(low) - 1 : int(high) - 1] for low, high in pairwise(edges)]
        expected = [np.median(one[np.isfinite(one)]) if np.isfinite(one).any() else math.nan for one in inside]
        assert np.array_equal(binned_difference(trace(a), trace(b), edges), expected, equal_nan=True)


@pytest.mark.parametrize("lost", [0.0, 0.3])
def test_quantiles_are_numpys_bit_for_bit(lost):
    draws = generator("quantiles", lost)
    for blocks in (1, 2, 19, 20, 200):
        values = draws.standard_normal((blocks, 300)).astype(np.float32).astype(np.float64)
        values[draws.random(values.shape) < lost] = math.nan
        values = values[:, np.isfinite(values).any(axis=0)]
        shares = (0.0, 0.05, 0.5, 0.95, 1.0)
        assert np.array_equal(quantiles(values, shares), np.nanquantile(values, shares, axis=0))


def test_curves_count_pairs_that_part_and_pairs_that_do_not(run):
    curves = {curve.label: curve for curve in growth_curves(run)}
    assert (curves["changed against plain"].pairs, curves["changed against plain"].equal) == (6, 0)
    assert (curves["plain-again against plain"].pairs, curves["plain-again against plain"].equal) == (0, 2)
    assert len(curves["plain-again against plain"].batches) == 0
    own = curves["changed against plain"]
    assert np.all(own.low <= own.middle)
    assert np.all(own.middle <= own.high)
    assert own.middle[0] == pytest.approx(np.median([1 - 1 / (1.1 + 0.01 * block) for block in range(6)]))


def test_a_factors_contrast_grows_too(tmp_path):
    spec = grid({"plain": arm()}, (Contrast(factor="lr", levels=(0.1, 0.2)),), {"lr": (0.1, 0.2)})
    run = write_run(
        tmp_path / "run", spec, lambda t: Told(block_losses(t.block) * generator(t.factors["lr"]).uniform(1, 2))
    )
    (curve,) = growth_curves(run)
    assert (curve.label, curve.pairs) == ("lr: 0.2 against 0.1", 6)
