"""Whether the study's outcome is recorded at all: asked of the first trial that is done, not after the last."""

from __future__ import annotations

import json

from ablate.design.spec import Outcome
from ablate.errors import BadInput, Problem, nearest
from ablate.record.journal import read_journal
from ablate.record.paths import StorePaths


def check_recorded(outcome: Outcome, paths: StorePaths, trial_id: str, attempt: int) -> None:
    """Check that a trial that is done, and still in the journal, recorded the outcome.

    Raises:
        BadInput: naming what it did record, and the nearest of it.
    """
    if outcome.evaluate is not None:
        name, key = outcome.evaluate, "outcome.evaluate"
        known = list(json.loads(paths.trial_json(trial_id, attempt).read_text())["evaluate"])
        source = "what `evaluate()` returns, or a function trainable"
    else:
        name, key = outcome.metric, "outcome.metric"
        known = ["loss", *read_journal(paths.rows(trial_id, attempt)).metrics]
        source = "`loss`, and what `metrics()` or ctx.batch gives"
    if name not in known:
        raise BadInput(
            Problem(
                where=f"{paths.grid_yaml}: {key}",
                found=f"{name!r} was not recorded by trial {trial_id}, the first that is done",
                allowed=", ".join(known) or "nothing was recorded",
                nearest=nearest(name, known),
                advice=f"It is {source}. The launch was stopped; mend the outcome and launch again: the trial is kept.",
            )
        )
