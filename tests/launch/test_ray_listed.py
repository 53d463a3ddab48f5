"""Tune is handed a launch's trials in order, each made when it is asked for."""

from __future__ import annotations

import pickle
from types import SimpleNamespace

import pytest
from ray import tune
from ray.tune.registry import register_trainable

from ablate.launch.ray_listed import Listed

CONFIGS = tuple({"id": f"t{number}", "bundles": [{"CPU": 1.0}]} for number in range(3))


@pytest.fixture
def experiment():
    """Return what Tune says that all trials have in common, as its ``Experiment`` does."""
    register_trainable("listed", tune.Trainable)
    return tune.Experiment(
        "trials",
        "listed",
        storage_path="/tmp",  # nothing is written there
        checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
        trial_name_creator=lambda trial: f"name of {trial.trial_id}",
        trial_dirname_creator=lambda trial: f"folder of {trial.trial_id}",
    )


def test_trials_come_in_order_and_then_no_more(experiment):
    listed = Listed(CONFIGS)
    assert listed.total_samples == 3
    listed.add_configurations([experiment])
    trials = [listed.next_trial() for _ in CONFIGS]
    assert [trial.config for trial in trials] == [{"trial": config} for config in CONFIGS]
    assert [trial.trial_id for trial in trials] == ["t0", "t1", "t2"], "Tune's own repeat among 100,000"
    assert [str(trial) for trial in trials] == ["name of t0", "name of t1", "name of t2"]
    assert trials[0].custom_dirname == "folder of t0"
    assert (trials[0].max_failures, trials[0].stopping_criterion) == (0, {})
    assert trials[0].storage.experiment_dir_name == "trials"
    assert not listed.is_finished()
    assert listed.next_trial() is None
    assert listed.is_finished()


def test_another_attempt_at_a_trial_is_another_trial_to_tune(experiment):
    listed = Listed(CONFIGS)
    listed.add_configurations([experiment])
    first = listed.next_trial()
    again = first.reset()
    assert again.config == first.config
    assert again.trial_id != first.trial_id


def test_no_trial_is_made_before_it_is_asked_for():
    made = []

    def configs():
        for config in CONFIGS:
            made.append(config["id"])
            yield config

    listed = Listed(CONFIGS)
    listed._left = configs()
    common = {"run": "listed", "storage": None, "checkpoint_config": None}
    register_trainable("listed", tune.Trainable)
    names = {"trial_name_creator": None, "trial_dirname_creator": None}
    listed.add_configurations([SimpleNamespace(spec={**common, **names})])
    listed.next_trial()
    assert made == ["t0"]


def test_tune_pickles_none_of_them():
    assert len(pickle.dumps(Listed(CONFIGS * 1000))) < 200
