"""The benchmarks of reading a store do what they say, on tiny stores: a valid store, equal answers, whole attempts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ablate.design.cross import trials
from ablate.record.check import check
from ablate.record.reader import Run
from ablate.record.status import run_status
from analysis.gap import gap
from benchmarks import analysis_peers, analysis_scale, compaction, listing, own_process
from benchmarks.synthetic_store import ULP_EQUAL, Losses, Size, grid_of, write_store

SIZE = Size(blocks=6, levels=2, batches=60)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("scale") / "scale"
    write_store(root, SIZE)
    return root


def test_the_synthetic_store_is_a_valid_one_of_the_size_it_says(store: Path) -> None:
    run = Run(store)
    assert check(run) == []
    assert run.batches(["loss"]).num_rows == SIZE.rows == 60 * SIZE.trials
    assert run_status(run).total("done") == SIZE.trials == 60
    losses = run.batches(["loss"])["loss"].to_numpy()
    assert (losses == losses.astype(np.float32)).all()
    assert losses.min() > 0


def test_repeats_are_equal_and_one_ulp_parts_late(store: Path) -> None:
    found = {one.other: one for one in gap(Run(store)).contrasts}
    assert found["arm plain-again"].verdict.cause == "BITWISE EQUAL"
    assert found["arm one-ulp"].divergence.earliest == ULP_EQUAL
    assert found["arm onednn-off"].divergence.earliest == 0


def test_a_trial_has_its_own_losses_and_the_same_ones_every_time() -> None:
    grid = grid_of(SIZE)
    made = {spec.trial_id: Losses(grid).of(spec).tobytes() for spec in trials(grid)}
    again = {spec.trial_id: Losses(grid).of(spec).tobytes() for spec in trials(grid)}
    assert made == again
    assert len(set(made.values())) == SIZE.trials * 4 // 5  # the A/A arm's are its original's


def test_the_peers_answer_as_gap_does(store: Path, tmp_path: Path) -> None:
    ours = analysis_scale.of_gap(gap(Run(store)).to_json())
    csv = tmp_path / "some.csv"
    assert analysis_scale.write_csv(store, csv, SIZE) == SIZE.blocks
    duckdb = analysis_peers.by_duckdb(store, SIZE.batches, 50, endpoints_only=False)
    for found, every in (
        (duckdb, True),
        (analysis_peers.by_duckdb(store, SIZE.batches, 50, endpoints_only=True), True),
        (analysis_peers.by_ablate(store), True),
        (analysis_peers.by_pandas(csv, SIZE.batches, 50), False),
    ):
        analysis_scale.check(ours, found, all_blocks=every)
    duckdb["one-ulp"]["first"] += 1
    with pytest.raises(RuntimeError, match=r"one-ulp: first differing batches 38 in 12 pairs"):
        analysis_scale.check(ours, duckdb, all_blocks=True)
    duckdb["one-ulp"]["gaps"]["3"] *= 1.001
    with pytest.raises(RuntimeError, match=r"one-ulp, block 3: .* is not "):
        analysis_scale.check(ours, duckdb, all_blocks=True)


def test_json_trials_say_how_many_are_done(tmp_path: Path) -> None:
    listing.write_json_trials(tmp_path, SIZE, 3)
    cost = own_process.run([sys.executable, "-c", listing.PEER, tmp_path])
    assert json.loads(cost.out) == dict.fromkeys(grid_of(SIZE).arms, 12)


def test_a_process_is_measured_and_a_failed_one_is_an_error() -> None:
    words = "import time; kept = bytearray(60_000_000); time.sleep(0.05); print('said')"
    cost = own_process.run([sys.executable, "-c", words])
    assert cost.out == "said\n"
    assert cost.peak_bytes > 60e6
    assert cost.wall_s > 0.05
    assert cost.cpu_s > 0
    with pytest.raises(RuntimeError, match=r"ended with 3: it broke"):
        own_process.run([sys.executable, "-c", "import sys; print('it broke', file=sys.stderr); sys.exit(3)"])


def test_compaction_keeps_every_attempt_and_a_reader_sees_whole_ones(tmp_path: Path) -> None:
    tables = compaction.attempts(150)
    ours = compaction.compact_ours(tmp_path / "scale", tables, read=False)
    peer = compaction.compact_naive(tmp_path / "naive", tables, read=False)
    assert (ours.before, ours.after, peer.after) == (150, 1, 1)
    assert compaction.read_ours(tmp_path / "scale") == compaction.read_naive(tmp_path / "naive") == 150
    with pytest.raises(ValueError, match="1 attempts have other than 100 rows"):
        compaction.whole(tables[0][1].slice(1))


def test_the_reader_beside_counts_what_fails(tmp_path: Path) -> None:
    over, folder = tmp_path / "over", tmp_path / "nothing"
    words = [sys.executable, compaction.__file__, "--read", folder, over, "naive"]
    process = subprocess.Popen(
        list(map(str, words)), stdout=subprocess.PIPE, text=True, env={"PYTHONPATH": str(own_process.ROOT)}
    )
    while process.poll() is None and not over.exists():
        over.touch()
    found = json.loads(process.communicate()[0])
    assert found["reads"] == found["failed"] == 0  # told to end before it began
    assert compaction.read_until(folder, _After(3), ours=False)["failed"] == 3


class _After:
    """A path that is there after so many looks."""

    def __init__(self, looks: int) -> None:
        self._left = looks

    def exists(self) -> bool:
        self._left -= 1
        return self._left < 0
