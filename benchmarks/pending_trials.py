"""What it costs that every trial asks Ray for its place at once: trials that do nothing, under several limits.

    PYTHONPATH=. python benchmarks/pending_trials.py [--trials N] [--repeats N] [--json FILE]

On a cluster ``ablate launch`` lets all of them ask, so that the autoscaler sees the grid; Tune alone lets 16 or 200.
CPU seconds are of the driver and of all processes of Ray. The limits take turns. There are more trials than the larger
limit: 200 trials under a limit of 200 would all ask, too.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from statistics import median
from typing import Any

from benchmarks.measured import Comparison, arguments, report

LIMITS = ("16", "200", "all")
TRIALS = 400


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


def measured(trials: int, repeats: int) -> dict[str, list[dict[str, float]]]:
    """Return what each limit gave; each time in a process of its own."""
    found: dict[str, list[dict[str, float]]] = {limit: [] for limit in LIMITS}
    for _ in range(repeats):
        for limit, times in found.items():
            words = [sys.executable, __file__, "--one", str(trials if limit == "all" else limit)]
            done = subprocess.run([*words, "--trials", str(trials)], stdout=subprocess.PIPE, text=True, check=True)
            times.append(json.loads(done.stdout.splitlines()[-1]))
            print(f"{trials} trials, {limit} may wait: {said(times[-1], trials)}", flush=True)
    return found


def said(found: dict[str, float], trials: int) -> str:
    each = 1000 * found["cpu_s"] / trials
    return f"first ends after {found['first_s']:.1f} s, last after {found['all_s']:.1f} s, {each:.0f} ms CPU a trial"


def main() -> None:
    parser = arguments(__doc__, 3)
    parser.add_argument("--trials", type=int, default=TRIALS, help=f"{TRIALS} unless told")
    parser.add_argument("--one", type=int, help="one run with this limit, whose findings are printed as JSON")
    asked = parser.parse_args()
    if asked.one is not None:
        print(json.dumps(one(asked.trials, asked.one)))
        return
    found = measured(asked.trials, asked.repeats)
    ours, rows = found.pop("all"), []
    for limit, peer in found.items():
        for what, unit, name, scale in (
            ("until the last ends", "s", "all_s", 1.0),
            ("CPU a trial", "ms", "cpu_s", 1e3 / asked.trials),
        ):
            mine, theirs = (tuple(one[name] * scale for one in runs) for runs in (ours, peer))
            rows.append(
                Comparison(
                    *(f"{asked.trials} trials that do nothing, all may ask at once: {what}", unit, mine),
                    *(f"{limit} may ask", theirs),
                    note=f"the first ends after {median(one['first_s'] for one in ours):.1f} s",
                )
            )
    report("Every trial asks Ray for its place at once", rows, asked.json)


if __name__ == "__main__":
    main()
