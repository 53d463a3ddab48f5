"""``tune.report`` for every batch, in a Ray of its own that runs one trial at a time: what a report costs and leaves.

    python benchmarks/recording_tune.py FOLDER WIDTH PAIRS REPEATS

Prints one line of JSON for each trial: ``share`` and ``cpu_us`` as ``recording_loop.Cost`` has them, in the trial's
process; ``driver_us`` of the launching process, and ``bytes`` in the trial's folder, each a report.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

ROOT = str(Path(__file__).resolve().parent.parent)
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["RAY_TRAIN_ENABLE_V2_MIGRATION_WARNINGS"] = "0"


def train(config: dict[str, Any]) -> None:
    """One trial."""
    sys.path.insert(0, config["root"])
    import torch
    from ray import tune

    from benchmarks.recording_loop import Reported, paired

    torch.set_num_threads(1)
    cost = paired(config["width"], Reported(lambda number, metrics: tune.report(metrics)), config["pairs"])
    Path(config["folder"], f"{config['trial']}.json").write_text(json.dumps(vars(cost)))


def main() -> None:
    folder, width, pairs, repeats = sys.argv[1], *map(int, sys.argv[2:])

    import ray
    from ray import tune

    class Spent(tune.Callback):
        """The driver's processor time at each result, of each trial."""

        def __init__(self) -> None:
            self.at: dict[str, list[float]] = {}

        def on_trial_result(self, *_: Any, trial: Any, **__: Any) -> None:
            self.at.setdefault(trial.trial_id, []).append(time.process_time())

    ray.init(address="local", include_dashboard=False, num_cpus=1, log_to_driver=False, logging_level="ERROR")
    spent = Spent()
    results = tune.Tuner(
        tune.with_resources(train, {"cpu": 1}),
        param_space={
            **{"trial": tune.grid_search(list(range(repeats))), "width": width, "pairs": pairs},
            **{"root": ROOT, "folder": folder},
        },
        run_config=tune.RunConfig(storage_path=folder, name="reports", verbose=0, callbacks=[spent]),
    ).fit()
    for result, at in zip(results, spent.at.values(), strict=True):
        if result.error:
            raise SystemExit(str(result.error))
        found = json.loads(Path(folder, f"{result.config['trial']}.json").read_text())
        size = sum(file.stat().st_size for file in Path(result.path).rglob("*") if file.is_file())
        driver_us = (at[-1] - at[0]) / (len(at) - 1) * 1e6
        print(json.dumps({**found, "driver_us": driver_us, "bytes": size / pairs}), flush=True)
    ray.shutdown()


if __name__ == "__main__":
    main()
