"""What ``ablate saddle`` says, as frozen values: the table prints them and ``--json`` writes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from analysis.as_json import as_json
from analysis.saddle_answer import Answer
from analysis.saddle_contrast import IndicatorContrast, TimeNearSaddles
from analysis.saddle_course import Course, GameStage


@dataclass(frozen=True)
class SaddleReport:
    """Everything ``ablate saddle`` says about a run.

    Attributes:
        study: its name.
        question: what it asks.
        asked: what the answer answers.
        run: how its trials ended, in words.
        looked: on how many samples, in which precision, where and in which mode the curvature was looked at.
        floor: what counts as negative curvature, in words: shares mean nothing without it.
        answer: whether some arms get stuck near saddles that others escape.
        courses: each arm over training.
        games: the game Jacobian of several players; empty for one.
        time: the share of snapshots near saddles, contrast by contrast.
        contrasts: the other indicators, contrast by contrast.
        refused: contrasts that are not compared, and why.
        dropped: trials that no contrast could use, and why.
        notes: what a reader must know to read the numbers right.
    """

    study: str
    question: str
    asked: str
    run: str
    looked: str
    floor: str
    answer: Answer
    courses: tuple[Course, ...]
    games: tuple[GameStage, ...]
    time: tuple[TimeNearSaddles, ...]
    contrasts: tuple[IndicatorContrast, ...]
    refused: tuple[str, ...]
    dropped: tuple[str, ...]
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain dicts, lists, text and finite numbers, ready for ``json.dumps``."""
        return as_json(self)
