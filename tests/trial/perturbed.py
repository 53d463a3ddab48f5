"""Runs a small trial in this process under given numerics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from spec_factory import make_task

from ablate.design.trial_spec import Numerics
from ablate.record.journal import read_journal
from ablate.record.paths import StorePaths
from ablate.trial.runner import run_trial
from ablate.trial.task import TrialEnd


def run(
    root: Path, trainable: str, attempt: int = 1, settings: dict[str, Any] | None = None, **options: Any
) -> tuple[TrialEnd, np.ndarray[Any, Any], dict[str, Any]]:
    """Run ``module:Thing``; return how it ended, its rows and its columns.

    Args:
        root: the store's folder.
        trainable: its import path.
        attempt: from 1.
        settings: the trainable's.
        options: the arm's, or ``spec`` with further fields of the trial.
    """
    spec = options.pop("spec", {})
    task = make_task(root, trainable, attempt, numerics=Numerics(**options), settings=settings or {}, **spec)
    end = run_trial(task)
    paths = StorePaths(root)
    rows = read_journal(paths.rows(task.spec.trial_id, attempt)).rows
    return end, rows, json.loads(paths.trial_json(task.spec.trial_id, attempt).read_text())
