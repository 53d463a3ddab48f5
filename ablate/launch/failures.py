"""Failed trials in words: each distinct failure once, with how many trials had it and how to run one of them alone."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from ablate.errors import Problem
from ablate.trial.task import TrialEnd

SHOWN = 3
"""How many distinct failures are shown; the rest is in the store's table of trials."""

HINTS = {
    "backward through the graph a second time": "Is the carry detached? It must hold no graph of the batch before.",
    "modified by an inplace operation": "A tensor that backward needs was changed in place after forward.",
}
"""Causes that a message of torch's alone does not tell; text in the message -> hint."""


def alone(grid: Path, runs: Path) -> str:
    """Return the command that runs one trial of a grid alone, without the trial's id."""
    return shlex.join(["ablate", "trial", str(grid), *(["--runs", str(runs)] if runs != Path("runs") else [])])


def problems(failed: Sequence[TrialEnd], ran: int, root: str, alone: str, not_run: int = 0) -> list[Problem]:
    """Describe the failed trials of a launch.

    Args:
        failed: how they ended.
        ran: how many trials the launch ran.
        root: the store.
        alone: the command that runs one trial alone, without its id.
        not_run: how many the launch left alone after all that it ran had failed alike.
    """
    alike = _alike(failed)
    listed = [_problem(ends, alone) for ends in alike[:SHOWN]]
    rest = f", in {len(alike)} ways" if len(alike) > SHOWN else ""
    found, advice = f"{len(failed)} of {ran} trials failed{rest}", "Launch again to retry."
    if not_run:
        found += f"; {not_run} more were not run, since every arm and every level failed in the same place"
        advice = "Mend it and launch again: nothing is lost, and the study goes on."
    return [*listed, Problem(root, found, advice=advice)]


def probe_problems(failed: Sequence[TrialEnd], trials: int, root: str) -> list[Problem]:
    """Describe the failed probes of a launch.

    Args:
        failed: how their tasks ended.
        trials: how many trials had weights to look at.
        root: the store.
    """
    alike = _alike(failed)
    listed = []
    for ends in alike[:SHOWN]:
        more = f"\n    the same in {len(ends) - 1} more" if len(ends) > 1 else ""
        listed.append(Problem(f"{ends[0].kind} failure of a probe", ends[0].error + more))
    rest = f", in {len(alike)} ways" if len(alike) > SHOWN else ""
    found = f"the probes of {len(failed)} of {trials} trials failed{rest}; the trials are unharmed"
    again = shlex.join(["ablate", "probe", root])
    return [*listed, Problem(root, found, advice=f"Look again at what is left: {again}")]


def _alike(failed: Sequence[TrialEnd]) -> list[list[TrialEnd]]:
    alike: dict[tuple[str | None, str], list[TrialEnd]] = {}
    for end in failed:
        alike.setdefault((end.kind, end.error.rstrip().splitlines()[-1]), []).append(end)
    return list(alike.values())


def _problem(ends: Sequence[TrialEnd], alone: str) -> Problem:
    first = ends[0]
    found = first.error
    if len(ends) > 1:
        found += f"\n    the same in {len(ends) - 1} more trial{'s' if len(ends) > 2 else ''}"
    hint = next((hint for text, hint in HINTS.items() if text in first.error), "")
    return Problem(f"{first.kind} failure", found, advice=f"{hint} Run it alone: {alone} {first.trial_id}".strip())
