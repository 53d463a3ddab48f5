"""What Tune keeps of a trial that ended: next to nothing, and no text of its state."""

from __future__ import annotations

import pytest
from ray.tune.execution.tune_controller import TuneController
from ray.tune.experiment import Trial

from ablate.launch.ray_listed import place_of
from ablate.launch.ray_memory import forget, keep_no_state

RESULT = {"end": "done", "done": True, "training_iteration": 1, "time_total_s": 0.5, "pid": 17}


@pytest.fixture
def trial():
    """Return a trial that has told its result."""
    made = Trial("any", stub=True)
    made.update_last_result(dict(RESULT))
    return made


@pytest.fixture
def controller():
    """Return as much of Tune's controller as keeps texts of states."""
    made = TuneController.__new__(TuneController)
    made._trials_to_cache, made._trial_metadata = set(), {}
    return made


def test_tune_would_keep_texts_of_a_trials_state_and_is_kept_from_it(controller, trial):
    controller._mark_trial_to_checkpoint(trial)
    assert len(controller._get_trial_checkpoints()) == 1, "Tune keeps them elsewhere now"
    controller._trial_metadata.clear()
    keep_no_state(controller)
    controller._mark_trial_to_checkpoint(trial)
    assert controller._get_trial_checkpoints() == {}


def test_a_trial_that_ended_holds_no_result(trial):
    assert {"training_iteration", "pid"} & trial.metric_analysis.keys() & trial.run_metadata.metric_n_steps.keys()
    trial._default_result_or_future = {"pid": 17}
    forget(trial)
    assert (trial.metric_analysis, trial.run_metadata.metric_n_steps) == ({}, {})
    assert trial._default_result_or_future is None
    assert trial.last_result == {"done": True, "trial_id": trial.trial_id}, "Tune itself reads this in the end"


def test_trials_that_ask_for_the_same_share_what_asks():
    first, second, other = (place_of({"trial": {"bundles": [{"CPU": cores}]}}) for cores in (1.0, 1.0, 2.0))
    assert first is second
    assert first != other
    assert first.required_resources == {"CPU": 1.0}
    assert other.required_resources == {"CPU": 2.0}
    assert place_of({"trial": {"bundles": [{"CPU": 1.0}, {"CPU": 1.0}]}}).required_resources == {"CPU": 2.0}
