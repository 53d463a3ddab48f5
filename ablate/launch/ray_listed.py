"""The trials of a launch, handed to Tune as it asks for them.

Tune's own grid copies the whole list of values once for each of them before the first trial starts: that takes 5 s of
the processor for 1000 trials, and 100 times as long for 10,000.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from ray import tune
from ray.tune.experiment import Trial
from ray.tune.search.search_algorithm import SearchAlgorithm


class Listed(SearchAlgorithm):
    """Hands out trials, in order.

    Args:
        configs: what each trial's actor reads as ``config["trial"]``; ``id`` is the trial's.
    """

    def __init__(self, configs: Sequence[dict[str, Any]]) -> None:
        self._trials = len(configs)
        self._left = iter(configs)
        self._experiment: Any = None

    def __getstate__(self) -> dict[str, Any]:
        """Tune pickles its set-up for a restore, which is never used."""
        return {}

    @property
    def total_samples(self) -> int:
        """How many there are in all."""
        return self._trials

    def add_configurations(self, experiments: Any) -> None:
        """Take what all trials have in common."""
        (self._experiment,) = experiments

    def next_trial(self) -> Trial | None:
        """Return the next trial; None after the last."""
        config = next(self._left, None)
        if config is None:
            self.set_finished()  # type: ignore[no-untyped-call]
            return None
        common = self._experiment.spec
        return Trial(
            common["run"],
            config={"trial": config},
            trial_id=config["id"],
            experiment_tag=config["id"],
            storage=common["storage"],
            checkpoint_config=common["checkpoint_config"],
            trial_name_creator=common["trial_name_creator"],
            trial_dirname_creator=common["trial_dirname_creator"],
        )


def place_of(config: Mapping[str, Any]) -> tune.PlacementGroupFactory:
    """Return the resources of a trial that ``Listed`` handed out, as Tune asks a function for them."""
    return _place(tuple(tuple(bundle.items()) for bundle in config["trial"]["bundles"]))


@cache
def _place(bundles: tuple[tuple[tuple[str, float], ...], ...]) -> tune.PlacementGroupFactory:
    """Return one object for all trials that ask for the same: each takes 6 kB."""
    return tune.PlacementGroupFactory([dict(bundle) for bundle in bundles])
