"""What it costs that every trial asks Ray for its place at once: trials that do nothing, under several limits.

    python benchmarks/pending_trials.py [TRIALS]

The default is 1000. CPU seconds are of the driver and of all processes of Ray.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Any

LIMITS = ("16", "200", "all")


def one(trials: int, limit: int) -> dict[str, float]:
    """Run so many trials on two cores; return seconds until the first ended, until the last did, and CPU seconds."""
    import psutil

    from ablate.launch import tune as _settings  # noqa: F401  # Ray as a launch has it

    os.environ["TUNE_MAX_PENDING_TRIALS_PG"] = str(limit)
    import ray
    from ray import tune

    class Nothing(tune.Trainable):
        def setup(self, config: dict[str, Any]) -> None:
            return

        def step(self) -> dict[str, Any]:
            return {"done": True}

        def reset_config(self, new_config: dict[str, Any]) -> bool:
            return True

    class First(tune.Callback):
        at = 0.0

        def on_trial_complete(self, *_: Any, **__: Any) -> None:
            self.at = self.at or time.monotonic()

    def spent() -> float:
        here = [psutil.Process(), *psutil.Process().children(recursive=True)]
        return sum(sum(process.cpu_times()[:2]) for process in here)

    ray.init(address="local", include_dashboard=False, num_cpus=2, log_to_driver=False, logging_level="ERROR")
    first, cpu, began = First(), spent(), time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        tune.Tuner(
            tune.with_resources(Nothing, tune.PlacementGroupFactory([{"CPU": 1}])),
            param_space={"trial": tune.grid_search(list(range(trials)))},
            tune_config=tune.TuneConfig(reuse_actors=True),
            run_config=tune.RunConfig(
                storage_path=folder,
                name="trials",
                verbose=0,
                callbacks=[first],
                checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
            ),
        ).fit()
    ended = time.monotonic()
    return {"first_s": first.at - began, "all_s": ended - began, "cpu_s": spent() - cpu}


def main() -> None:
    """Print a line for each limit; each is measured in a process of its own."""
    if len(sys.argv) == 3:
        print(json.dumps(one(int(sys.argv[1]), int(sys.argv[2]))))
        return
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    for limit in LIMITS:
        words = [sys.executable, __file__, str(trials), str(trials) if limit == "all" else limit]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        found = json.loads(done.stdout.splitlines()[-1])
        print(
            f"{trials} trials, {limit} may wait: first ends after {found['first_s']:.1f} s, the last after "
            f"{found['all_s']:.1f} s, {1000 * found['cpu_s'] / trials:.0f} ms of CPU a trial",
            flush=True,
        )


if __name__ == "__main__":
    main()
