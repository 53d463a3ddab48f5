from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

from ablate.design.spec import Arm, GridSpec, Outcome
from ablate.design.trial_spec import GuardPlan, Numerics, TrialSpec
from ablate.record.recorder import Recorder
from ablate.record.store import Store


def make_grid(**changes: Any) -> GridSpec:
    arm = Arm(numerics=Numerics(), settings={}, resources={"CPU": 1.0}, blocks=(0, 1))
    fields: dict[str, Any] = {
        "study": "demo",
        "question": "does it come out the same?",
        "trainable": "pkg.mod:Thing",
        "settings": {},
        "factors": {"lr": (0.1, 0.2), "clip": (True, False)},
        "arms": {"fast": arm, "slow": arm},
        "blocks": (0, 1),
        "batches": 4,
        "outcome": Outcome(last=2),
        "contrasts": (),
        "guard": GuardPlan(),
    }
    return GridSpec(**{**fields, **changes})


def make_spec(arm: str = "fast", block: int = 0, batches: int = 4, **factors: Any) -> TrialSpec:
    return TrialSpec(
        study="demo",
        trainable="pkg.mod:Thing",
        settings={},
        arm=arm,
        numerics=Numerics(),
        factors={"lr": 0.1, "clip": True, **factors},
        block=block,
        batches=batches,
        guard=GuardPlan(),
        resources={"CPU": 1.0},
    )


def run_trial(
    store: Store, spec: TrialSpec, attempt: int | None = None, loss: Callable[[int], float] = lambda k: 1 / (k + 1)
) -> int:
    """Record a whole attempt as a trial's process would, without absorbing it; return its number."""
    attempt = attempt or store.next_attempt(spec.trial_id)
    with Recorder(store.paths, spec, attempt) as recorder:
        recorder.sketch(-1, 300, np.full(256, 0.1))
        for k in range(spec.batches):
            recorder.record(k, loss(k), 0.01, {}, order_hash=k or None, content_hash=2**64 - 1 if k == 0 else None)
        recorder.finish("done", evaluate={"test_loss": 0.5}, torch="2.13", source_hash="aa", initial_hash="w0")
    return attempt


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: for tests that open many stores and would wait for the disk."""
    shm = Path("/dev/shm")
    with TemporaryDirectory(dir=shm if os.access(shm, os.W_OK) else tmp_path) as folder:
        yield Path(folder)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "runs" / "démo study"
