"""What a sketch of the parameters costs: one, and its share of a step at the default plan; beside it a checkpoint.

    OMP_NUM_THREADS=1 python benchmarks/sketch.py [repeats]

A fully connected network of about 100 000 parameters, and one of a million. A sketch is measured as a trial makes it,
with the line that goes into the journal; ``torch.save`` writes the parameters into the same folder, in memory. Times
are medians of the one thread's processor time, so that a busy machine disturbs little; a step is taken to last 5 ms at
100 000 parameters, and ten times that at a million.
"""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy
import torch
from torch import nn

from ablate.design.trial_spec import GuardPlan, Numerics, SketchPlan, TrialSpec
from ablate.record.paths import StorePaths
from ablate.record.recorder import Recorder
from ablate.trial.cpu import cpu_model
from ablate.trial.sketch import keep_sketch, sketch

STEP_S, STEP_PARAMETERS = 5e-3, 100_000
AIM = 0.01
SIZES = ((784, 125, 10), (784, 1000, 210))
"""Inputs, hidden units, outputs."""


def seconds(call: Callable[[], object], repeats: int) -> float:
    """Return the median time of a call; the first is not counted."""
    times = []
    for _ in range(repeats + 1):
        begin = time.thread_time()
        call()
        times.append(time.thread_time() - begin)
    return median(times[1:])


def spec() -> TrialSpec:
    return TrialSpec(
        **{"study": "benchmark", "trainable": "a:B", "settings": {}, "arm": "plain", "numerics": Numerics()},
        **{"factors": {}, "block": 0, "batches": 1, "guard": GuardPlan(), "resources": {"CPU": 1.0}},
    )


def main() -> int:
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    torch.set_num_threads(1)
    every = SketchPlan().every
    print(f"{cpu_model()}, Python {platform.python_version()}, torch {torch.__version__}, numpy {numpy.__version__}")
    share = f"of a step, every {every}"
    print(f"{'parameters':>11} {'sketch us':>10} {'and kept':>9} {'torch.save':>11} {share:>21}")
    shares = []
    for inputs, hidden, outputs in SIZES:
        model = nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, outputs))
        named = dict(model.named_parameters())
        size = sum(parameter.numel() for parameter in named.values())
        with TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
            paths = StorePaths(Path(folder))
            paths.journal.mkdir()
            with Recorder(paths, spec(), 1) as recorder:
                alone = seconds(partial(sketch, named), repeats)
                kept = seconds(partial(keep_sketch, model, 0, recorder), repeats)
            saved = seconds(partial(torch.save, model.state_dict(), Path(folder) / "weights.pt"), repeats)
        shares.append(kept / every / (STEP_S * size / STEP_PARAMETERS))
        print(f"{size:>11,} {alone * 1e6:>10.0f} {kept * 1e6:>9.0f} {saved * 1e6:>11.0f} {shares[-1]:>21.2%}")
    print(f"aim: at most {AIM:.0%} of a step: {'met' if max(shares) <= AIM else 'MISSED'}")
    return int(max(shares) > AIM)


if __name__ == "__main__":
    sys.exit(main())
