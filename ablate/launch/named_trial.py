"""Which trial of a study a user means."""

from __future__ import annotations

from ablate.design.trial_spec import TrialSpec
from ablate.errors import BadInput, Problem, nearest
from ablate.launch.study import Study


def find_trial(study: Study, trial_id: str) -> TrialSpec:
    """Return the trial of that id, or the one of that ``arm/block`` if there is just one.

    Raises:
        BadInput: there is none, or several; what is nearest, or the several, are named.
    """
    by_id = {spec.trial_id: spec for spec in study.specs}
    names = [f"{spec.arm}/{spec.block}" for spec in study.specs]
    named = [spec for spec, name in zip(study.specs, names, strict=True) if name == trial_id]
    if len(named) == 1:
        return named[0]
    if named:
        several = "; ".join(f"{spec.trial_id} ({_levels(spec)})" for spec in named)
        raise BadInput(Problem(f"{study.path}: {trial_id}", f"has {len(named)} trials, one for each level", several))
    if trial_id in by_id:
        return by_id[trial_id]
    raise BadInput(
        Problem(
            where=f"{study.path}: trial {trial_id!r}",
            found=f"is none of the grid's {len(by_id)} trials",
            nearest=nearest(trial_id, [*by_id, *names]),
            advice=f"Name it as ARM/BLOCK, or list the ids: ablate plan {study.path} --json",
        )
    )


def _levels(spec: TrialSpec) -> str:
    return ", ".join(f"{name}={level}" for name, level in spec.factors.items())
