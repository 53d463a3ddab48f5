"""Which machines computed a trial: kept from checkpoint to checkpoint, told only when there are several."""

from __future__ import annotations

import pytest

from ablate.trial.moved import continued, machine_of, moved_from

EAST, WEST = "east (Xeon, AVX2)", "west (Epyc, AVX512)"


def test_a_machine_in_words() -> None:
    columns = {"host": "east", "cpu_model": "Xeon", "capability": "AVX2", "gpu": None}
    assert machine_of(columns) == EAST
    assert machine_of({**columns, "gpu": "H200"}) == "east (Xeon, AVX2, H200)"


def test_checkpoints_of_one_machine_are_one_span() -> None:
    first = continued((), EAST, 10)
    assert continued(first, EAST, 20) == ((EAST, 20),)
    assert moved_from(continued(first, EAST, 20), EAST) is None


def test_every_move_is_told_with_the_last_batch_before_it() -> None:
    there = continued(continued((), EAST, 10), WEST, 25)
    assert there == ((EAST, 10), (WEST, 25))
    assert moved_from(there[:1], WEST) == "east (Xeon, AVX2) to batch 9"
    assert moved_from(there, EAST) == "east (Xeon, AVX2) to batch 9; west (Epyc, AVX512) to batch 24"


def test_what_was_computed_anew_is_no_longer_told() -> None:
    """Its next checkpoint was lost: from batch 10 on another machine did it again."""
    there = ((EAST, 10), (WEST, 25))
    assert continued(there, WEST, 25) == there
    assert continued(there[:1], WEST, 12) == ((EAST, 10), (WEST, 12))


@pytest.mark.parametrize("earlier", [(), ((WEST, 3),)])
def test_nothing_is_told_of_a_trial_that_stayed(earlier) -> None:
    assert moved_from(earlier, WEST) is None
