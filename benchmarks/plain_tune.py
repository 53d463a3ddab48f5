"""Plain Ray Tune, as its documentation has it: what the launch benchmarks are held against, in a process of its own.

    python benchmarks/plain_tune.py FOLDER TRIALS [--batches N --width N --rows N] [--quick] [--restore] [--tag NAME]

Every trial is a fresh worker process that imports torch, Tune's default. ``--quick`` reuses workers and imports
nothing, for what only the driver's side of a trial is asked about.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["RAY_TRAIN_ENABLE_V2_MIGRATION_WARNINGS"] = "0"

NAME = "plain"


def train(config: dict[str, Any]) -> None:
    """One trial: the bare loop, reported once."""
    sys.path.insert(0, config["beside"])
    from launch_trainables import bare
    from ray import tune

    tune.report({"loss": bare(config["width"], config["rows"], config["batches"])})


def nothing(config: dict[str, Any]) -> None:
    """One trial that only says that it began."""
    from ray import tune

    with Path(os.environ["BENCHMARK_MARKS"]).open("a") as file:
        file.write(f"{time.time()!r}\n")
    tune.report({"loss": 0.0})


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("trials", type=int)
    for name, value in (("batches", 3), ("width", 4), ("rows", 8)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--restore", action="store_true")
    parser.add_argument("--tag", help="a resource that every trial asks for beside its core")
    asked = parser.parse_args()

    import ray
    from ray import tune

    ray.init(address="local", num_cpus=len(os.sched_getaffinity(0)))
    resources = {"cpu": 1} | ({asked.tag: 1} if asked.tag else {})
    trainable = tune.with_resources(nothing if asked.quick else train, resources)
    if asked.restore:
        tuner = tune.Tuner.restore(str(asked.folder / NAME), trainable=trainable, resume_unfinished=True)
    else:
        settings = {"width": asked.width, "rows": asked.rows, "batches": asked.batches}
        tuner = tune.Tuner(
            trainable,
            param_space={"trial": tune.grid_search(list(range(asked.trials))), "beside": sys.path[0], **settings},
            tune_config=tune.TuneConfig(reuse_actors=asked.quick),
            run_config=tune.RunConfig(storage_path=str(asked.folder), name=NAME),
        )
    tuner.fit()
    print(f"fitted at {time.time()!r}")


if __name__ == "__main__":
    main()
