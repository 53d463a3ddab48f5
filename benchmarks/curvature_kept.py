"""What a probe of the curvature costs the trial itself: the weights it keeps, of a PredNet trial of 250 windows.

The small network of the packaged studies, since a large one's windows take longer by more than its weights do. What
keeping takes is counted from before to after each call, in the trial, so that no noise between trials is in it; the
probe is a task of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

from ablate.design.trial_spec import CurvaturePlan, ProbePlan
from ablate.trial.kept_weights import Keeper
from benchmarks.audited import run

PREDNET = "PredNet 24x16"
WINDOWS, AT = 250, (0, 50, 100, 250)
SETTINGS = {"source": "clips", "width": 24, "height": 16, "channels": "3,16,32", "window": 20, "lr": 0.004}


def kept(windows: int = WINDOWS, at: tuple[int, ...] = AT) -> dict[str, Any]:
    """Return seconds of keeping and of the whole of one trial, by processor and by clock: their ratio varies little."""
    spent = {"cpu": 0.0, "wall": 0.0}
    before, after = (_timed(method, spent) for method in (Keeper.before, Keeper.after))
    with (
        TemporaryDirectory() as folder,
        mock.patch.object(Keeper, "before", before),
        mock.patch.object(Keeper, "after", after),
    ):
        began = time.perf_counter()
        plan = ProbePlan(curvature=CurvaturePlan(at=at))
        took = run("trainables.prednet:PredNet", Path(folder), 0, batches=windows, settings=SETTINGS, probes=plan)
        trial = {"cpu": took, "wall": time.perf_counter() - began}
    return {"keeping": spent, "trial": trial, "snapshots": len(at), "windows": windows}


def _timed(method: Callable[[Keeper], None], spent: dict[str, float]) -> Callable[[Keeper], None]:
    def timed(keeper: Keeper) -> None:
        cpu, wall = time.process_time(), time.perf_counter()
        method(keeper)
        spent["cpu"] += time.process_time() - cpu
        spent["wall"] += time.perf_counter() - wall

    return timed
