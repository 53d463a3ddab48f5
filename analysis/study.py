"""What a notebook calls: one study, and a method for each thing to show. Numbers are computed once."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

from ablate.record.reader import Run
from analysis.control_points import side_by_side
from analysis.controls import all_contrasts
from analysis.digits import plural
from analysis.error_points import error_points
from analysis.evidence_lines import evidence_lines
from analysis.figures.beside_controls import NOTHING_BESIDE, draw_beside_controls
from analysis.figures.captioned import Captioned
from analysis.figures.distance_to_float64 import draw_distances
from analysis.figures.divergence_growth import draw_divergence_growth
from analysis.figures.loss_curves import draw_loss_curves
from analysis.figures.outcome_figure import draw_outcomes
from analysis.figures.paired_gaps import draw_paired_gaps
from analysis.figures.parameter_growth import NO_SKETCHES, draw_parameter_growth
from analysis.gap import gap
from analysis.gap_points import gap_points
from analysis.gap_report import GapReport
from analysis.gap_rows import arm_rows, gap_rows, verdict_rows
from analysis.growth_curves import growth_curves
from analysis.handed_over import handed_over
from analysis.html_tables import Html, bullets, heading, pairs, paragraph, table
from analysis.loss_bands import loss_bands
from analysis.opening import badness
from analysis.outcome_points import MACHINE, machine_words, outcome_groups
from analysis.outcomes import Outcome
from analysis.parameter_growth import parameter_growth
from analysis.pictures import Pictures, find_pictures
from analysis.population import population
from analysis.run_data import read_audits, read_outcomes, read_trials
from analysis.verdict import VerdictReport, judge

MOST_ARMS = 4
"""Arms whose distances a figure can show beside each other."""


class Study:
    """One run and what can be shown of it."""

    def __init__(self, run: Path | str) -> None:
        """Open a run.

        Args:
            run: its folder, or a study's name under ``runs``.

        Raises:
            BadInput: if there is no such run; the nearest one is named.
        """
        self.run = Run(run)

    @cached_property
    def report(self) -> GapReport:
        """Everything ``ablate gap`` says; made anew unless ``ablate report`` hands it over."""
        return handed_over(self.run) or gap(self.run)

    def verdict(self) -> Html:
        """Show the question and the headline."""
        return pairs([("question", self.report.question), ("headline", self.report.headline)])

    def evidence(self) -> Html:
        """Show what the headline's verdict rests on."""
        first = next((one for one in self.report.contrasts if one.label == self.report.worst), None)
        return pairs(evidence_lines(first) if first else [])

    def loss_curves(self) -> Captioned:
        """Draw the loss of every batch."""
        outcome, batches = self.run.grid.outcome, self.run.grid.batches
        window = None
        if outcome.evaluate is None and outcome.metric == "loss":
            window = (batches - min(outcome.last, batches), batches - 1)
        return draw_loss_curves(loss_bands(self.run), _beside(self.run), window, self._population)

    def outcomes(self) -> Captioned:
        """Draw every trial's outcome, by arm and machine."""
        trials, recorded = self._trials
        named = [name for name in ("trial_id", *MACHINE) if name in recorded.column_names]
        machines = {row["trial_id"]: machine_words(row) for row in recorded.select(named).to_pylist()}
        found = self._outcomes
        return draw_outcomes(
            outcome_groups(self.run.grid, trials, found, machines), self.report.outcome, self._population
        )

    def paired_gaps(self) -> Captioned:
        """Draw every block's paired difference."""
        unit, points = gap_points(self.report.contrasts, self.run.grid.margin)
        return draw_paired_gaps(points, unit, self.report.outcome, self._population)

    def divergence_growth(self) -> Captioned:
        """Draw how far matched losses part."""
        return draw_divergence_growth(growth_curves(self.run, self._trials[0]), self._population)

    def parameter_growth(self) -> Captioned | Html:
        """Draw how far the parameters of matched trials part; say so if none were sketched."""
        grown = parameter_growth(self.run, self._trials[0])
        return draw_parameter_growth(grown, self._population) if grown else Html(f"<p>{NO_SKETCHES}</p>")

    def distances(self) -> Captioned:
        """Draw how far each gradient and update is from float64."""
        arms = self._arms_to_show()
        rows = [row for found in read_audits(self.run).values() for row in found if row.arm in arms]
        trials = len({row.trial_id for row in rows if row.check == "distance"})
        return draw_distances(error_points(rows, arms), arms, trials, self._population)

    def beside_controls(self) -> Captioned | Html:
        """Draw the outcomes of every contrast's arms beside those of their controls; say so if there is none."""
        found = side_by_side(self.run.grid, self._trials[0], self._outcomes)
        return (
            draw_beside_controls(found, self.report.outcome, self._population)
            if found
            else Html(f"<p>{NOTHING_BESIDE}</p>")
        )

    def all_evidence(self) -> Html:
        """Show what each verdict rests on, and what would change it."""
        parts = []
        for one in self._verdicts.contrasts:
            rows = [*one.evidence, *(("would change it", words) for words in one.would_change)]
            parts.append(f"{heading(one.label).text}{pairs(rows).text}")
        return Html("".join(parts))

    def appendix(self) -> Html:
        """Show a paragraph on each contrast for a paper's appendix."""
        return Html("".join(paragraph(one.appendix).text for one in self._verdicts.contrasts))

    def pictures(self) -> Pictures:
        """Show what the arms produced on identical inputs; nothing if the run kept no artifacts."""
        return find_pictures(self.run)

    def arms(self) -> Html:
        """Show each arm's outcomes."""
        return table(arm_rows(self.report.arms))

    def gaps(self) -> Html:
        """Show each contrast's gap."""
        return table(gap_rows(self.report.contrasts))

    def verdicts(self) -> Html:
        """Show each contrast's verdict."""
        return table(verdict_rows(self.report.contrasts))

    def sentences(self) -> Html:
        """Show each verdict in words."""
        return pairs([(one.label, one.verdict.sentence) for one in self.report.contrasts])

    def left_out(self) -> Html:
        """Show which trials no number rests on, with the reasons."""
        lost = self.report.dropped
        if not lost:
            return Html("<p>Every planned trial is in the numbers.</p>")
        lines = [f"{one.trial}: {one.reason} ({'; '.join(one.contrasts)})" for one in lost]
        return Html(f"<p>{plural(len(lost), 'trial')} left out:</p>{bullets(lines).text}")

    def notes(self) -> Html:
        """Show what a reader must know to read the numbers right."""
        return bullets(list(self.report.notes))

    @cached_property
    def _trials(self) -> Any:
        return read_trials(self.run)

    @cached_property
    def _outcomes(self) -> dict[str, Outcome]:
        return read_outcomes(self.run, *self._trials)

    @cached_property
    def _verdicts(self) -> VerdictReport:
        return judge(self.run, self.report, self.run.grid.margin)

    def _arms_to_show(self) -> list[str]:
        """Return at most ``MOST_ARMS`` arms: those of the worst contrasts of arms first."""
        named = {contrast.label: contrast.arms for contrast in all_contrasts(self.run.grid)}
        ordered = sorted(self.report.contrasts, key=lambda one: (one.control is not None, badness(one)))
        arms = [arm for contrast in ordered for arm in named[contrast.label] or ()]
        return list(dict.fromkeys([*arms, *self.run.grid.arms]))[:MOST_ARMS]

    @cached_property
    def _population(self) -> str:
        return population(self._trials[1])


def _beside(run: Run) -> dict[str, str]:
    """Return the arm that each arm is compared with first: the reference of a contrast, or what a control repeats."""
    found: dict[str, str] = {}
    for contrast in all_contrasts(run.grid):
        if contrast.arms:
            found.setdefault(contrast.arms[1], contrast.arms[0])
    return found
