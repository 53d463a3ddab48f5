"""The grid key ``artifacts``: after which batches trials record what the model does."""

from __future__ import annotations

import pytest

from ablate.design.cross import trials
from ablate.design.extend import differences
from ablate.design.trial_spec import ArtifactPlan
from ablate.errors import BadInput

ALLOWED = "a mapping: {at: [0, 50, last]} or {every: N}, or both"


def test_nothing_is_recorded_unless_asked_for(load):
    assert not load("").artifacts
    assert not any(ArtifactPlan().covers(batch) for batch in range(200))


def test_last_is_the_last_batch(load):
    grid = load("artifacts: {at: [50, last, 0, 50]}\n")
    assert grid.artifacts == ArtifactPlan(at=(0, 50, grid.batches - 1))
    assert trials(grid)[0].artifacts == grid.artifacts


def test_every_counts_from_batch_0_and_goes_with_at(load):
    plan = load("artifacts: {every: 40, at: [last]}\n").artifacts
    last = plan.at[0]
    assert [batch for batch in range(100) if plan.covers(batch)] == sorted({0, 40, 80, last} & set(range(100)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("artifacts: {}", f"artifacts: says no batch\n    allowed: {ALLOWED}"),
        ("artifacts: 50", f"artifacts: found 50 (a whole number)\n    allowed: {ALLOWED}"),
        (
            "artifacts: {at: 50}",
            "artifacts.at: found 50 (a whole number)\n    allowed: a list of batches from 0, or last",
        ),
        ("artifacts: {at: []}", "artifacts.at: found an empty list\n    allowed: a list of batches from 0, or last"),
        ("artifacts: {at: [first]}", 'found "first" (text)\n    allowed: a batch: a whole number from 0, or last'),
        ("artifacts: {at: [0, 100000]}", "found 100000\n    allowed: 0 to"),
        ("artifacts: {every: 0}", "artifacts.every: found 0 (a whole number)\n    allowed: a whole number from 1"),
        ("artifacts: {evry: 5}", "unknown key \"evry\"\n    did you mean 'every'?\n    allowed: at, every"),
    ],
)
def test_messages(load, text, message):
    with pytest.raises(BadInput) as error:
        load(text + "\n")
    assert message in str(error.value)


def test_a_store_takes_another_plan(load):
    """What is looked at changes no loss, so trials recorded under another plan are the same trials."""
    one, two = load("artifacts: {every: 5}\n"), load("")
    assert differences(one, two) == []
    assert [trial.trial_id for trial in trials(one)] == [trial.trial_id for trial in trials(two)]
