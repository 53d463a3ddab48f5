"""What the saddle notebook calls: a method for each thing to show of a run's probes. Numbers are computed once."""

from __future__ import annotations

from functools import cached_property

from analysis.density_ridges import density_ridges
from analysis.digits import plural
from analysis.figures.captioned import Captioned
from analysis.figures.game_plane import ONE_PLAYER, draw_game_plane
from analysis.figures.index_against_loss import NO_SHARES, draw_index_against_loss
from analysis.figures.kinds_over_training import draw_kinds
from analysis.figures.over_training import draw_edges, draw_gradient_share
from analysis.figures.ridgelines import NO_DENSITIES, draw_ridgelines
from analysis.figures.surface_map import NO_SURFACE, draw_surface
from analysis.html_tables import Html, bullets, heading, pairs, paragraph, table
from analysis.loss_surface import surfaces
from analysis.probed import Probed, players, read_probed
from analysis.saddle import saddle
from analysis.saddle_points import Trail, trails
from analysis.saddle_report import SaddleReport
from analysis.saddle_rows import game_rows, indicator_rows, kind_rows, time_rows
from analysis.study import Study


class SaddleStudy(Study):
    """One run and what can be shown of its curvature."""

    @cached_property
    def saddles(self) -> SaddleReport:
        """Everything ``ablate saddle`` says."""
        return saddle(self.run, probed=self._probed)

    def answer(self) -> Html:
        """Show the question and its answer."""
        found = self.saddles
        rows = [("question", found.asked), ("answer", f"{found.answer.word}: {found.answer.sentence}")]
        return pairs(
            [*rows, ("by the rule", found.answer.rule), ("looked at", found.looked), ("negative", found.floor)]
        )

    def time_near_saddles(self) -> Html:
        """Show the share of snapshots near saddles, contrast by contrast."""
        if not self.saddles.time:
            return Html("")
        return table(
            time_rows(self.saddles.time, self._several),
            "share of snapshots near a saddle: A against B is A less B, paired by block",
        )

    def kinds(self) -> Captioned:
        """Draw what kind of point each arm is at over training."""
        return draw_kinds(self.saddles.courses, self._several, self._population)

    def kind_counts(self) -> Html:
        """Show how many snapshots of each arm are of each kind."""
        return table(kind_rows(self.saddles.courses, self._several))

    def densities(self) -> Captioned | Html:
        """Draw the spectral densities as ridgelines; say so if there are none."""
        spectra = density_ridges(self.run, self._probed, list(self.run.grid.arms), self.run.grid.factors)
        if spectra is None:
            return paragraph(NO_DENSITIES)
        return draw_ridgelines(spectra, self._several, self._population)

    def index_against_loss(self) -> Captioned | Html:
        """Draw the share of negative eigenvalues against the loss; say so if there are none."""
        found = self._trails("negative_share")
        if not found:
            return paragraph(NO_SHARES)
        brackets = self._trails("negative_share_low"), self._trails("negative_share_high")
        return draw_index_against_loss(found, brackets, self._arms, self.saddles.floor, self._population)

    def edges(self) -> Captioned:
        """Draw both ends of the spectrum over training."""
        floors = [value.value for one in self._trails("floor") for value in one.values if value.value > 0]
        top, bottom = self._trails("lambda_max"), self._trails("lambda_min")
        return draw_edges(top, bottom, self._arms, min(floors, default=None), self._population)

    def gradient_share(self) -> Captioned:
        """Draw the gradient's share in directions of negative curvature."""
        found, seen = self._trails("gradient_negative_share"), self._trails("gradient_captured")
        return draw_gradient_share(found, seen, self._arms, self.saddles.floor, self._population)

    def surface(self) -> Captioned | Html:
        """Draw the loss around one snapshot; say so if none was mapped."""
        found = surfaces(self.run, self._probed, self._arms)
        if not found:
            return paragraph(NO_SURFACE)
        return draw_surface(found[0], self._arms, self._several, len(found) - 1, self._population)

    def game(self) -> Captioned | Html:
        """Draw the eigenvalues of the players' game; say so if there is one player."""
        if not self.saddles.games:
            return paragraph(ONE_PLAYER)
        return draw_game_plane(self._probed, self._arms, self.run.grid.factors, self._population)

    def game_table(self) -> Html:
        """Show the players' game over training; nothing if there is one player."""
        return table(game_rows(self.saddles.games)) if self.saddles.games else Html("")

    def indicators(self) -> Html:
        """Show the other indicators, contrast by contrast."""
        found = self.saddles.contrasts
        parts = []
        for contrast, player in dict.fromkeys((one.contrast, one.player) for one in found):
            own = [one for one in found if (one.contrast, one.player) == (contrast, player)]
            title = f"{contrast}, player {player}" if self._several else contrast
            parts.append(f"{heading(title).text}{table(indicator_rows(own)).text}")
        return Html("".join(parts))

    def not_compared(self) -> Html:
        """Show which contrasts and trials no number rests on, with the reasons."""
        found = self.saddles
        if not found.refused and not found.dropped:
            return Html("<p>Every contrast is compared, with every trial that it has.</p>")
        parts = [bullets(list(found.refused)).text]
        if found.dropped:
            parts.append(f"<p>{plural(len(found.dropped), 'trial')} left out:</p>{bullets(list(found.dropped)).text}")
        return Html("".join(parts))

    def saddle_notes(self) -> Html:
        """Show what a reader must know to read the numbers right."""
        return bullets(list(self.saddles.notes))

    @cached_property
    def _probed(self) -> tuple[Probed, ...]:
        return read_probed(self.run)

    @cached_property
    def _several(self) -> bool:
        return len(players(self._probed)) > 1

    @property
    def _arms(self) -> list[str]:
        return list(self.run.grid.arms)

    def _trails(self, name: str) -> tuple[Trail, ...]:
        return trails(self._probed, name, self._several, self.run.grid.factors)
