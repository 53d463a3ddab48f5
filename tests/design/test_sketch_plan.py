"""The grid key ``sketches``: after which batches a trial keeps a sketch of its parameters."""

from __future__ import annotations

import pytest

from ablate.design.cross import trials
from ablate.design.extend import differences
from ablate.design.trial_spec import SketchPlan
from ablate.errors import BadInput


def test_by_default_every_tenth_batch_the_last_and_the_initial_weights(load):
    grid = load("")
    assert grid.sketches == SketchPlan(every=10)
    assert trials(grid)[0].sketches == grid.sketches
    assert [batch for batch in range(-1, 25) if grid.sketches.covers(batch, 25)] == [-1, 9, 19, 24]


def test_0_is_none_not_even_of_the_initial_weights(load):
    plan = load("sketches: {every: 0}\n").sketches
    assert not any(plan.covers(batch, 25) for batch in range(-1, 25))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sketches: 5", "sketches: found 5 (a whole number)\n    allowed: a mapping: {every: N}"),
        (
            "sketches: {every: -1}",
            "sketches.every: found -1 (a whole number)\n    allowed: a whole number from 0: after every n-th batch and "
            "the last; 0 for none",
        ),
        ("sketches: {evry: 5}", "unknown key \"evry\"\n    did you mean 'every'?\n    allowed: every"),
    ],
)
def test_messages(load, text, message):
    with pytest.raises(BadInput) as error:
        load(text + "\n")
    assert message in str(error.value)


def test_a_store_takes_another_plan(load):
    """A sketch changes no loss, so trials recorded under another plan are the same trials."""
    one, two = load("sketches: {every: 5}\n"), load("")
    assert differences(one, two) == []
    assert [trial.trial_id for trial in trials(one)] == [trial.trial_id for trial in trials(two)]
