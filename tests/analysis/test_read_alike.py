"""Fast reading and summing gives the very numbers of the slow, obvious way, which stands here."""

from __future__ import annotations

import warnings
from collections import Counter

import numpy as np
import pyarrow.compute as pc
import pytest
from synthetic import BATCHES, LAST, Told, arm, block_losses, generator, grid, write_run

from ablate.design.cross import trials
from ablate.record.reader import Run
from ablate.record.status import _planned
from analysis.divergence import Trace, shared
from analysis.growth_curves import bin_edges, binned_difference
from analysis.loss_bands import _band
from analysis.outcomes import window_outcomes
from analysis.run_data import (
    outcomes_of_windows,
    outcomes_without_batches,
    read_blocks,
    read_hashes,
    read_outcomes,
    read_trials,
)

ARMS = {"plain": arm(3), "changed": arm(2, way=2)}


def tell(trial):
    losses = block_losses(trial.block)
    short = trial.arm == "changed" and trial.block == 1
    return Told(losses[:37] if short else losses, status="failed" if short else "done", metrics={"size": losses[::-1]})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return write_run(tmp_path_factory.mktemp("alike") / "run", grid(ARMS, factors={"lr": (0.1, 0.2)}), tell)


def test_blocks_hold_the_rows_that_a_filter_finds(run: Run) -> None:
    planned, _ = read_trials(run)
    table = run.batches()
    for rows in read_blocks(run, planned):
        own = table.filter(pc.equal(table["block"], rows.block))
        assert set(rows.traces) == set(own["trial_id"].to_pylist())
        (hashes_of,) = read_hashes(run, [rows.traces])
        for trial_id, trace in rows.traces.items():
            mine = own.filter(pc.equal(own["trial_id"], trial_id)).to_pylist()
            assert trace.batch_index.tolist() == [row["batch_index"] for row in mine]
            assert trace.loss.tolist() == [row["loss"] for row in mine]
            hashes = hashes_of[trial_id]
            assert hashes.batch_index.tolist() == trace.batch_index.tolist()
            for name, found in (("order_hash", hashes.order), ("content_hash", hashes.content)):
                assert found.to_pylist() == [row[name] for row in mine]
                assert 0 < len(mine) - found.null_count < BATCHES


def test_outcomes_are_those_of_a_filter_on_the_window(run: Run) -> None:
    planned, recorded = read_trials(run)
    window = run.batches(["trial_id", "loss"], pc.field("batch_index") >= BATCHES - LAST).to_pylist()
    values = {one.trial_id: [row["loss"] for row in window if row["trial_id"] == one.trial_id] for one in planned}
    expected = window_outcomes(planned, values, "loss", LAST)
    assert read_outcomes(run, planned, recorded) == expected
    assert outcomes_without_batches(run, planned, recorded) is None
    windows = {i: own for rows in read_blocks(run, planned, metric="loss") for i, own in rows.windows.items()}
    assert outcomes_of_windows(run, planned, windows) == expected


def test_a_band_without_gaps_has_the_bits_of_one_that_allows_for_them() -> None:
    for blocks in (4, 25):
        losses = generator("band", blocks).lognormal(size=(blocks, 300))
        whole = blocks < 20
        expected = np.nanquantile(losses, [0.0 if whole else 0.05, 0.5, 1.0 if whole else 0.95], axis=0)
        band = _band("a", (), losses, 600)
        assert np.array_equal([band.low, band.middle, band.high], expected)


def test_bins_hold_the_batches_that_a_search_puts_there() -> None:
    draws = generator("bins")
    for batches in (1, 2, 9, 10, 57, 1000, 4321):
        a, b = draws.lognormal(size=(2, batches))
        b[: batches // 3] = a[: batches // 3]
        index, edges = np.arange(batches), bin_edges(batches)
        found = binned_difference(Trace(index, a), Trace(index, b), edges)
        start = int(np.flatnonzero(a != b)[0])
        relative = np.abs(a / np.maximum(a, b) - b / np.maximum(a, b))[start:]
        at = np.digitize(np.arange(1, len(relative) + 1), edges) - 1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # empty bins
            expected = [np.median(relative[at == one]) for one in range(len(edges) - 1)]
        assert np.array_equal(found, expected, equal_nan=True)


def test_what_two_trials_share_does_not_depend_on_both_having_the_same() -> None:
    index = np.arange(20)
    one, other = (Trace(index, generator(name).lognormal(size=20)) for name in "ab")
    short = Trace(index[5:], other.loss[5:])
    for mine, theirs in ((one, other), (one, short), (short, one)):
        common, a, b = shared(mine, theirs)
        expected = np.intersect1d(mine.batch_index, theirs.batch_index)
        assert np.array_equal(common, expected)
        assert np.array_equal(a, mine.loss[np.isin(mine.batch_index, expected)])
        assert np.array_equal(b, theirs.loss[np.isin(theirs.batch_index, expected)])


def test_planned_trials_are_counted_as_they_are_made() -> None:
    for spec in (grid(ARMS), grid(ARMS, factors={"lr": (0.1, 0.2), "width": (1, 2, 3)})):
        assert _planned(spec) == Counter(one.arm for one in trials(spec))
