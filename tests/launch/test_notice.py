"""A notice to leave (SIGTERM to a trial): the batch ends, a checkpoint is made, and another attempt goes on from it."""

from __future__ import annotations

import os
import signal

import pytest

from ablate.record.journal import read_identity, rows_written
from ablate.record.paths import StorePaths
from ablate.record.reader import Run
from tests.cluster.place import losses
from tests.conftest import wait_for, whole

BATCHES = 30
START_S = 200.0
"""With an embedded Ray a launch starts within 10 s on an idle machine; tests run beside others."""
TWO = "arms:\n  slow: {}\n  other: {settings: {at: 4}}\n"


def told_to_leave(place, trainable, *how):
    """Launch two slow trials, tell the first that is under way to leave, and return its id and how the launch ended."""
    place.grid(TWO, batches=BATCHES, blocks=1, settings="{step_s: 0.1}", trainable=trainable)
    process = place.start("launch", "grid.yaml", *how)
    paths = StorePaths(place.root())

    def under_way():
        assert process.poll() is None, process.communicate()
        return [key for key in paths.journal_attempts() if (rows_written(paths.rows(*key)) or 0) >= 3]

    key = wait_for(under_way, START_S)[0]
    os.kill(read_identity(paths.rows(*key))["pid"], signal.SIGTERM)
    return key.trial_id, place.finish(process)


@pytest.mark.parametrize("how", [["--local"], pytest.param([], marks=pytest.mark.slow)], ids=["local", "ray"])
def test_a_trial_told_to_leave_goes_on_from_where_it_was_bit_for_bit(place, how):
    trial_id, done = told_to_leave(place, "doubles:Structured", *how)
    assert done.code == 0, done.text
    assert f"trial {trial_id} (arm " in done.words
    assert "told to leave (SIGTERM), it left after batch " in done.words
    assert "; its checkpoint is made, so it goes on from there: tried again as attempt 2" in done.words
    assert whole(place.root(), batches=BATCHES) == 2  # the grid plans no checkpoint: the notice made one
    row = next(row for row in Run(place.root()).trials().to_pylist() if row["trial_id"] == trial_id)
    assert row["attempt"] == 2
    assert (row["failures_code"], row["failures_infrastructure"]) == (0, 1)
    left_off = [one["batch_index"] for one in Run(place.root()).attempts(["batch_index"]).to_pylist()]
    assert row["resumed_at"] == len(left_off) >= 3
    assert left_off == list(range(len(left_off)))
    assert row["moved_from"] is None  # the same machine

    undisturbed = place.ablate("launch", "grid.yaml", "--local", "--runs", "beside", env={"DOUBLES_WELL": "1"})
    assert undisturbed.code == 0, undisturbed.text
    assert losses(place.root()) == losses(place.folder / "beside" / "doubles")


@pytest.mark.slow
def test_a_function_that_makes_no_checkpoints_leaves_and_begins_again(place):
    trial_id, done = told_to_leave(place, "doubles:train", "--local")
    assert done.code == 0, done.text
    assert "its loop calls no ctx.checkpoint, so it begins again: tried again as attempt 2" in done.words
    assert whole(place.root(), batches=BATCHES) == 2
    row = next(row for row in Run(place.root()).trials().to_pylist() if row["trial_id"] == trial_id)
    assert (row["attempt"], row["resumed_at"]) == (2, None)
