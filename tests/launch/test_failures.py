"""Trials that fail inside a launch: what the command line says, and that launching again completes the study."""

from __future__ import annotations

import shlex

import pytest

from ablate.record.reader import Run
from tests.conftest import whole

MIXED = """\
arms:
  good: {}
  raises: {settings: {fault: raise}}
  diverges: {settings: {fault: not finite}}
  killed: {settings: {fault: kill}}
"""
WELL = {"DOUBLES_WELL": "1"}


def test_failures_are_told_by_arm_and_batch_and_mended_by_launching_again(place):
    place.grid(MIXED)
    first = place.ablate("launch", "grid.yaml", "--local")
    assert first.code == 3, first.text
    assert "(arm raises, block 0), attempt 1, batch 3:" in first.words
    assert "Planned: the double raises, as it was told" in first.words
    assert "(arm killed, block " in first.words
    assert "its process died by signal 9" in first.words
    assert (
        first.words.count("its process died by signal 9: tried again as attempt ") == 2 * 3
    )  # its code is not at fault
    assert "batch 3: Planned: the double raises, as it was told: tried again" not in first.words
    assert "4 of 8 trials failed Launch again to retry." in first.words
    assert "diverged" in first.out
    assert "/ablate/" not in first.text

    kept = Run(place.root()).batches(["trial_id", "batch_index", "loss"]).to_pylist()
    attempts = Run(place.root()).attempts(["trial_id", "batch_index"]).to_pylist()
    assert len(kept) == 2 * 6 + 2 * 4
    assert len(attempts) == 2 * 3 + 2 * 4 * 3  # what they acknowledged before they failed

    alone = next(line for line in first.err.splitlines() if "Run it alone: " in line).partition("Run it alone: ")[2]
    rerun = place.ablate(*shlex.split(alone)[1:])
    assert rerun.code == 3, rerun.text
    assert "batch 3:" in rerun.words
    assert "Planned: the double raises, as it was told" in rerun.words

    second = place.ablate("launch", "grid.yaml", "--local", env=WELL)
    assert second.code == 0, second.text
    assert whole(place.root(), statuses="done diverged") == 8
    rows = {row["arm"]: row for row in Run(place.root()).trials().to_pylist()}
    assert (rows["raises"]["failures_code"], rows["raises"]["failures_infrastructure"]) == (1, 0)
    assert (rows["killed"]["failures_code"], rows["killed"]["failures_infrastructure"]) == (0, 4)
    now = set(map(str, Run(place.root()).batches(["trial_id", "batch_index", "loss"]).to_pylist()))
    assert set(map(str, kept)) <= now


def test_a_loss_that_is_not_a_number_is_an_outcome_and_gap_names_the_trials(place):
    place.grid("arms:\n  good: {}\n  diverges: {settings: {fault: not finite}}\n", trainable="doubles:train")
    done = place.ablate("launch", "grid.yaml", "--local")
    assert done.code == 0, done.text
    assert "diverged" in done.out
    diverged = [row["trial_id"] for row in Run(place.root()).trials().to_pylist() if row["status"] == "diverged"]
    assert len(diverged) == 2
    as_json = place.ablate("gap", "doubles", "--json")
    assert "NaN" not in as_json.out
    for trial_id in diverged:
        assert trial_id in as_json.out or "diverges" in done.out


def test_a_study_whose_every_trial_fails_still_ends_in_words(place):
    place.grid("arms:\n  first: {}\n  second: {settings: {at: 4}}\n", settings="{fault: raise}", blocks=1)
    done = place.ablate("launch", "grid.yaml", "--local")
    assert done.code == 3, done.text
    assert "2 of 2 trials failed" in done.words
    assert "/ablate/" not in done.text


@pytest.mark.slow
def test_a_trial_that_ends_its_process_or_has_no_memory(place):
    place.grid("arms:\n  exits: {settings: {fault: exit}}\n  greedy: {settings: {fault: no memory}}\n", blocks=1)
    done = place.ablate("launch", "grid.yaml", "--local")
    assert done.code == 3, done.text
    assert done.words.count(": tried again as attempt ") == 2 * 3
    assert "its process ended with code 7 and no result" in done.words
    assert "memory failure: trial " in done.words
    assert "MemoryError: the double has no memory, as it was told" in done.words
