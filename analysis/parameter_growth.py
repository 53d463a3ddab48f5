"""How the parameters of every contrast's sides part, batch by batch: what the figure draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ablate.record.reader import Run
from analysis.controls import Control, all_contrasts, contrast_control
from analysis.pairing import Sides, matching
from analysis.parameter_distance import DistanceCurve, ParametersApart, curve, pair_distances, summarise
from analysis.run_data import read_trials
from analysis.trials import Trial


@dataclass(frozen=True)
class ParameterGrowth:
    """Distances of one contrast.

    Attributes:
        label: the contrast.
        control: kind of control contrast; None for one of the study's own.
        found: its summary.
        curve: its distances after each sketched batch.
    """

    label: str
    control: Control | None
    found: ParametersApart
    curve: DistanceCurve


def parameter_growth(run: Run, trials: Sequence[Trial] | None = None) -> tuple[ParameterGrowth, ...]:
    """Return every contrast of the run whose trials were sketched; one block is in memory at a time.

    Args:
        run: the store.
        trials: every planned trial; None reads them.
    """
    trials = read_trials(run)[0] if trials is None else trials
    contrasts = all_contrasts(run.grid)
    matches = [matching(trials, Sides.of(contrast, run.grid)).matches for contrast in contrasts]
    grown = []
    for contrast, (pairs, other_shapes) in zip(contrasts, pair_distances(run, matches), strict=True):
        found = summarise(pairs, other_shapes)
        if found is not None:
            grown.append(ParameterGrowth(contrast.label, contrast_control(contrast, run.grid), found, curve(pairs)))
    return tuple(grown)
