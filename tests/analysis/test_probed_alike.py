"""What was looked at otherwise, or of one side only, is not compared, and it is told."""

import pytest
from probing import AT, MINIMUM, SADDLE, snapshot, study

from analysis.saddle import saddle


@pytest.mark.parametrize(
    ("column", "other", "says"),
    [
        ("probe_hash", "fedcba9876543210", "different probe sets: arm plain, block 0 with 0123456789ab, arm slow"),
        ("dtype", "float32", "different precisions: arm plain, block 0 with float64, arm slow, block 0 with float32"),
        ("mode", "eval", "different modes of the model: arm plain, block 0 with train, arm slow, block 0 with eval"),
    ],
)
def test_what_was_looked_at_otherwise_is_not_compared(tmp_path, column, other, says):
    def tell(trial):
        columns = {column: other} if trial.arm == "slow" else {}
        return [row for at in AT for row in snapshot(at, SADDLE if trial.arm == "slow" else MINIMUM, **columns)]

    found = saddle(study(tmp_path, tell))
    assert (found.time, found.contrasts) == ((), ())
    assert found.answer.word == "NOT DECIDED"
    assert says in found.answer.sentence
    assert other[:12] in found.looked
    assert len(found.courses) == 3


def test_devices_differ_by_rounding_only_and_are_told(tmp_path):
    def tell(trial):
        return [row for at in AT for row in snapshot(at, device="cuda" if trial.arm == "slow" else "cpu")]

    found = saddle(study(tmp_path, tell))
    assert len(found.time) == 1
    assert any(note.startswith("Looked at on cpu and cuda") for note in found.notes)


def test_a_trial_that_lacks_a_snapshot_takes_its_partner_with_it(tmp_path):
    def tell(trial):
        lacking = trial.arm == "slow" and trial.block == 2
        return [row for at in AT if not (lacking and at == 40) for row in snapshot(at)]

    found = saddle(study(tmp_path, tell))
    assert found.time[0].n == 6
    assert list(found.dropped) == [
        "arm plain, block 2: its partner, arm slow, block 2, has no outcome [slow against plain]",
        "arm slow, block 2: not looked at after batch 40 [slow against plain]",
    ]


def test_a_snapshot_that_few_trials_have_costs_nobody_a_partner(tmp_path):
    def tell(trial):
        more = (50,) if trial.arm == "plain" and trial.block == 0 else ()
        return [row for at in sorted((*AT, *more)) for row in snapshot(at)]

    found = saddle(study(tmp_path, tell))
    assert (found.time[0].n, found.dropped) == (7, ())
    assert "after batch 20, 40, 60," in found.notes[0]
