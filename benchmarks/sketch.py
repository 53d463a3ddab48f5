"""What a sketch of the parameters costs: one, and its share of a step at the default plan; beside it a checkpoint.

    OMP_NUM_THREADS=1 PYTHONPATH=. python benchmarks/sketch.py [--repeats N] [--json FILE]

A fully connected network of about 100 000 parameters, and one of a million. A sketch is measured as a trial makes it,
with the line that goes into the journal; ``torch.save`` writes the parameters into the same folder, in memory. Times
are medians of the one thread's processor time, so that a busy machine disturbs little; a step is taken to last 5 ms at
100 000 parameters, and ten times that at a million.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import torch
from torch import nn

from ablate.design.trial_spec import GuardPlan, Numerics, SketchPlan, TrialSpec
from ablate.record.paths import StorePaths
from ablate.record.recorder import Recorder
from ablate.trial.sketch import keep_sketch, sketch
from benchmarks.measured import Comparison, arguments, report

STEP_S, STEP_PARAMETERS = 5e-3, 100_000
AIM = 0.01
SIZES = ((784, 125, 10), (784, 1000, 210))
"""Inputs, hidden units, outputs."""


def seconds(call: Callable[[], object], repeats: int) -> list[float]:
    """Return the times of calls; the first is not counted."""
    times = []
    for _ in range(repeats + 1):
        begin = time.thread_time()
        call()
        times.append(time.thread_time() - begin)
    return times[1:]


def spec() -> TrialSpec:
    return TrialSpec(
        **{"study": "benchmark", "trainable": "a:B", "settings": {}, "arm": "plain", "numerics": Numerics()},
        **{"factors": {}, "block": 0, "batches": 1, "guard": GuardPlan(), "resources": {"CPU": 1.0}},
    )


def row(inputs: int, hidden: int, outputs: int, repeats: int) -> Comparison:
    every = SketchPlan().every
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
    share = median(kept) / every / (STEP_S * size / STEP_PARAMETERS)
    return Comparison(
        *(f"a sketch of {size:,} parameters, kept", "us", tuple(time * 1e6 for time in kept)),
        *("torch.save", tuple(time * 1e6 for time in saved)),
        target=f"<= {AIM:.0%} of a step, every {every}",
        met=share <= AIM,
        note=f"{share:.2%} of a step of {STEP_S * size / STEP_PARAMETERS * 1e3:.3g} ms; "
        f"the sketch alone {median(alone) * 1e6:.0f} us",
    )


def main() -> None:
    asked = arguments(__doc__, 300).parse_args()
    torch.set_num_threads(1)
    report("A sketch of the parameters", [row(*size, asked.repeats) for size in SIZES], asked.json)


if __name__ == "__main__":
    main()
