"""``ablate gap``: how large each contrast's gap is and what explains it so far, from a run's Parquet files alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import replace

from ablate.design.attainable import holm as attainable
from ablate.design.spec import GridSpec, Margin
from ablate.record.reader import Run
from analysis.arm_summary import summarise_arm
from analysis.audit_evidence import audit_evidence
from analysis.audit_row import AuditRow
from analysis.batch_pass import BatchPass, pass_over
from analysis.confounding import Streams, compare_generators, compare_trials, generator_states, sum_up
from analysis.contrast import ContrastReport, PairedContrast, report, worst
from analysis.controls import all_contrasts, arm_control, contrast_control
from analysis.declared import declared
from analysis.divergence import summarise
from analysis.dose_response import dose_response, dose_words
from analysis.gap_notes import notes
from analysis.gap_report import DroppedTrial, GapReport
from analysis.holm import holm
from analysis.imported import imported_notes, imported_words
from analysis.kind_words import kind_evidence, kind_notes
from analysis.kinds import compare_kinds
from analysis.lent_slopes import with_lent_slopes
from analysis.lost_batches import lost_batches
from analysis.one_ulp import OneUlpControl, beyond_one_ulp
from analysis.outcomes import Outcome
from analysis.pairing import Match, Matching, Sides, matching, with_outcomes
from analysis.parameter_distance import pair_distances
from analysis.parameter_distance import summarise as summarise_parameters
from analysis.run_data import metric_column, outcomes_of_windows, outcomes_without_batches, read_audits, read_trials
from analysis.run_line import from_here, run_line
from analysis.size import effect
from analysis.stream_pass import streams_of
from analysis.trials import Trial
from analysis.uncollected import uncollected

NOTHING = "NOTHING TO COMPARE: the grid has one arm and no contrast."


@uncollected()
def gap(run: Run, seed: int = 0, margin: Margin | None = None) -> GapReport:
    """Analyse a run.

    Args:
        run: the store; only its Parquet files are read.
        seed: seed of every resampling; the same seed gives the same report, byte for byte.
        margin: an equivalence margin given after the fact, which is labelled so; None takes the grid's.

    Returns:
        GapReport: also of a run that is still going on or has failed trials, which are named.

    Raises:
        BadInput: the outcome that the grid asks for was not recorded.
    """
    grid = run.grid
    trials, recorded = read_trials(run)
    with ThreadPoolExecutor(2) as beside:  # reading, counting and resampling wait for each other as little as can be
        reading = beside.submit(read_audits, run)
        matched = [matching(trials, Sides.of(contrast, grid)) for contrast in all_contrasts(grid)]
        outcomes = outcomes_without_batches(run, trials, recorded)
        batches = pass_over(run, trials, matched, metric_column(run) if outcomes is None else "")
        outcomes = outcomes_of_windows(run, trials, batches.windows) if outcomes is None else outcomes
        paired = [_paired(one, outcomes, grid) for one in matched]
        contrasts = _contrasts(run, trials, paired, batches, reading, margin or grid.margin, seed, beside)
    kinds = compare_kinds(grid, trials, outcomes)
    contrasts = tuple(
        replace(found, kinds=kind_evidence(one.contrast, grid, kinds))
        for found, one in zip(contrasts, paired, strict=True)
    )
    first = worst(contrasts)
    response = dose_response(grid, trials, outcomes, seed)
    return GapReport(
        study=grid.study,
        question=grid.question,
        outcome=_outcome_words(grid),
        margin=str(margin or grid.margin) + (" (post hoc)" if margin else "") if margin or grid.margin else None,
        run=run_line(run.paths.root, trials, recorded, len(grid.blocks)),
        headline=first.verdict.sentence + imported_words(grid, first.verdict.cause) if first else NOTHING,
        worst=first.label if first else None,
        arms=tuple(summarise_arm(name, arm, trials, outcomes, grid.blocks) for name, arm in grid.arms.items()),
        contrasts=contrasts,
        dropped=_dropped(paired),
        notes=(
            *((dose_words(response),) if response else ()),
            *kind_notes(kinds, grid, recorded),
            *imported_notes(grid),
            *notes(contrasts, recorded, margin or grid.margin, post_hoc=margin is not None),
        ),
        damage=lost_batches(trials, batches.present, from_here(run.paths.root)),
        dose_response=response,
        kinds=kinds,
    )


def _paired(matched: Matching, outcomes: Mapping[str, Outcome], grid: GridSpec) -> PairedContrast:
    contrast = matched.sides.contrast
    control, words = contrast_control(contrast, grid), declared(contrast, grid)
    return PairedContrast(contrast, matched.sides, control, with_outcomes(matched, outcomes), words)


def _contrasts(
    run: Run,
    trials: Sequence[Trial],
    paired: Sequence[PairedContrast],
    batches: BatchPass,
    reading: Future[dict[str, list[AuditRow]]],
    margin: Margin | None,
    seed: int,
    beside: Executor,
) -> tuple[ContrastReport, ...]:
    """Report on every contrast; the resampling, which takes seconds of a large study, goes on beside the rest."""
    family = [index for index, one in enumerate(paired) if one.control is None]
    begun = [beside.submit(effect, one.pairing, margin, len(family), seed) for one in paired]
    controls = _one_ulp_controls(paired, run.grid)
    beyond = [
        beside.submit(beyond_one_ulp, one.pairing, one.sides.levels, controls if one.control is None else (), seed)
        for one in paired
    ]
    matches = [one.pairing.matches for one in paired]
    audits = with_lent_slopes(reading.result(), trials, run.grid)
    evidence = [audit_evidence(one.sides, one.pairing.matches, run.grid, audits) for one in paired]
    streams = _streams(run, matches, batches.present, audits)
    divergences = [summarise(found, len(own)) for found, own in zip(batches.partings, matches, strict=True)]
    if run.grid.imported and run.grid.imported.rounded:
        divergences = [replace(one, bitwise_equal=False) for one in divergences]
    apart = [summarise_parameters(*found) for found in pair_distances(run, matches)]
    effects = [one.result() for one in begun]
    adjusted = [one.test.p for one in effects]
    smallest = [one.test.smallest for one in effects]
    for index, p in zip(family, holm([adjusted[i] for i in family]), strict=True):
        adjusted[index] = p
    best = attainable([1.0 if (p := smallest[index]) is None else p for index in family])
    for index, p in zip(family, best, strict=True):
        smallest[index] = None if smallest[index] is None else p
    return tuple(
        report(
            one,
            effects[i],
            adjusted[i],
            smallest[i],
            len(family),
            divergences[i],
            streams[i],
            evidence[i],
            apart[i],
            beyond[i].result(),
            margin,
        )
        for i, one in enumerate(paired)
    )


def _streams(
    run: Run, contrasts: Sequence[Sequence[Match]], present: Collection[str], audits: Mapping[str, Sequence[AuditRow]]
) -> list[Streams]:
    """Sum up what trials, batches and audits say of each contrast's streams; ``present``: trials with batches."""
    states = {trial_id: generator_states(audits.get(trial_id, ())) for trial_id in present}
    return [
        sum_up(
            (one.block, [*found, *compare_trials(one), *compare_generators(one, states)])
            for one, found in zip(matches, compared, strict=True)
        )
        for matches, compared in zip(contrasts, streams_of(run, contrasts), strict=True)
    ]


def _one_ulp_controls(paired: Sequence[PairedContrast], grid: GridSpec) -> list[OneUlpControl]:
    """Return the contrasts of a one-ulp arm with the very arm it repeats."""
    controls = []
    for one in paired:
        original, perturbed = one.contrast.arms or ("", "")
        if one.control == "one-ulp" and grid.arms[perturbed].repeat == original:
            assert arm_control(grid.arms[perturbed]) == "one-ulp", "a repeat of a plain arm is the control here"
            controls.append(OneUlpControl(one.contrast.label, original, one.pairing))
    return controls


def _dropped(paired: Sequence[PairedContrast]) -> tuple[DroppedTrial, ...]:
    """Merge what the contrasts left out; what has no partner by plan (a control's blocks, a cell) is not left out."""
    labels: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for one in paired:
        for dropped in one.pairing.dropped:
            if not dropped.reason.startswith("no partner"):
                key = (dropped.trial.trial_id, str(dropped.trial), dropped.reason)
                labels[key].append(one.contrast.label)
    return tuple(DroppedTrial(*key, tuple(where)) for key, where in labels.items())


def _outcome_words(grid: GridSpec) -> str:
    if grid.outcome.evaluate is not None:
        return f"{grid.outcome.evaluate} on held-out data, after batch {grid.batches - 1}"
    last = min(grid.outcome.last, grid.batches)
    return f"mean {grid.outcome.metric} over the last {last} of {grid.batches} batches"
