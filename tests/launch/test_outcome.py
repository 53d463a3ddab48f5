"""A misspelt outcome stops the launch at the first trial that is done, and mending it keeps that trial."""

from __future__ import annotations

import pytest

from tests.conftest import whole


@pytest.mark.slow
def test_a_misspelt_metric_is_refused_after_one_trial_and_can_be_mended(place):
    place.grid("arms: {plain: {}}\n", outcome="{metric: accuracy}", blocks=3)
    refused = place.ablate("launch", "grid.yaml", "--local")
    assert refused.code == 2, refused.text
    assert "outcome.metric: 'accuracy' was not recorded by trial t" in refused.words
    assert "allowed: loss" in refused.words
    assert "mend the outcome and launch again: the trial is kept." in refused.words
    place.grid("arms: {plain: {}}\n", blocks=3)
    mended = place.ablate("launch", "grid.yaml", "--local")
    assert mended.code == 0, mended.text
    assert whole(place.root()) == 3


def test_an_outcome_that_was_recorded_cannot_be_changed(place):
    place.grid("arms: {plain: {}}\n", blocks=1)
    assert place.ablate("launch", "grid.yaml", "--local").code == 0
    place.grid("arms: {plain: {}}\n", blocks=1, outcome="{metric: loss, last: 2}")
    refused = place.ablate("launch", "grid.yaml", "--local")
    assert refused.code == 2
    assert "outcome.last: 3 -> 2" in refused.words
    assert "rename the study, or pass --runs FOLDER" in refused.words


def test_a_held_out_value_that_nobody_returns_is_refused(place):
    place.grid("arms: {plain: {}}\n", outcome="{evaluate: accuracy}", blocks=1)
    refused = place.ablate("launch", "grid.yaml", "--local")
    assert refused.code == 2
    assert "outcome.evaluate: 'accuracy' was not recorded" in refused.words
