"""``ablate saddle``: do some arms get stuck near saddle points that others escape? From a run's Parquet files alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from ablate.record.reader import Run
from analysis.controls import contrast_control
from analysis.pairing import Match, Sides, pair
from analysis.probed import Probed, players, read_probed
from analysis.probed_alike import conditions_words, unlike
from analysis.run_data import read_trials
from analysis.run_line import run_line
from analysis.saddle_answer import QUESTION, answer
from analysis.saddle_contrast import Compared, indicator_contrasts, time_near_saddles
from analysis.saddle_course import courses, games
from analysis.saddle_indicators import KINDS, compared_at, kind_outcomes
from analysis.saddle_notes import floor_words, notes
from analysis.saddle_report import SaddleReport
from analysis.trials import Trial


def saddle(run: Run, seed: int = 0, probed: Sequence[Probed] = ()) -> SaddleReport:
    """Analyse the probes of a run.

    Args:
        run: the store; only its Parquet files are read.
        seed: seed of every resampling; the same seed gives the same report, byte for byte.
        probed: what ``read_probed`` gives of the run, if it was read already.

    Raises:
        NoProbes: nothing was probed.
        StoreError: a part cannot be read.
    """
    grid = run.grid
    trials, recorded = read_trials(run)
    probed = probed or read_probed(run)
    compared, refused, dropped = _compared(run, trials, probed)
    time = time_near_saddles(trials, compared, seed)
    found = indicator_contrasts(trials, compared, seed)
    course = courses(probed, grid.arms, grid.factors)
    slopes = sum(one.kinds["on a slope"] for one in course), sum(one.snapshots for one in course)
    return SaddleReport(
        study=grid.study,
        question=grid.question,
        asked=QUESTION,
        run=run_line(run.paths.root, trials, recorded, len(grid.blocks)),
        looked=conditions_words(probed),
        floor=floor_words(probed),
        answer=answer(time, refused, len(players(probed)) > 1, slopes),
        courses=course,
        games=games(probed, grid.arms, grid.factors),
        time=time,
        contrasts=found,
        refused=tuple(refused),
        dropped=tuple(dropped),
        notes=notes(probed, compared, time, found, course, recorded),
    )


def _compared(
    run: Run, trials: Sequence[Trial], probed: Sequence[Probed]
) -> tuple[list[Compared], list[str], list[str]]:
    """Return what may be compared, what may not and why, and which trials are lost to it and why."""
    compared, refused = [], []
    dropped: dict[str, list[str]] = defaultdict(list)
    for player in players(probed):
        own: dict[str, list[Probed]] = defaultdict(list)
        for one in probed:
            if one.player == player:
                own[one.trial_id].append(one)
        at = compared_at([one for one in probed if one.player == player])
        for contrast in run.grid.contrasts:
            if contrast_control(contrast, run.grid):
                continue
            sides = Sides.of(contrast, run.grid)
            paired = pair(trials, kind_outcomes(trials, own, at, KINDS), sides)
            if why := unlike(paired.matches, own):
                refused.append(f"{contrast.label}: not compared, {why}")
                continue
            compared.append(Compared(contrast.label, player, sides, _of(paired.matches, own), at))
            for lost in paired.dropped:
                if not lost.reason.startswith("no partner"):
                    dropped[f"{lost.trial}: {lost.reason}"].append(contrast.label)
    return compared, list(dict.fromkeys(refused)), [f"{who} [{'; '.join(w)}]" for who, w in dropped.items()]


def _of(matches: Sequence[Match], own: Mapping[str, Sequence[Probed]]) -> dict[str, Sequence[Probed]]:
    """Return the snapshots of the trials that are matched."""
    there = {trial.trial_id for match in matches for trial in (match.reference, match.other)}
    return {trial_id: snapshots for trial_id, snapshots in own.items() if trial_id in there}
