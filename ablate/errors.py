"""Errors a user can meet, each with its exit code and a message that says where, what, what is allowed, what next."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong.

    Attributes:
        where: file, line and key path (``grid.yaml:12: arms.fast.treads``), or trial, attempt and batch.
        found: what was found there.
        allowed: what may stand there instead; empty if that says nothing.
        nearest: the nearest valid spelling; empty if there is none.
        advice: what to do next; empty if it is obvious.
    """

    where: str
    found: str
    allowed: str = ""
    nearest: str = ""
    advice: str = ""

    def __str__(self) -> str:
        parts = [f"{self.where}: {self.found}"]
        if self.nearest:
            parts.append(f"did you mean {self.nearest!r}?")
        if self.allowed:
            parts.append(f"allowed: {self.allowed}")
        if self.advice:
            parts.append(self.advice)
        return "\n    ".join(parts)


def nearest(word: str, candidates: Iterable[str]) -> str:
    """Return the candidate spelled most like ``word``, or an empty string."""
    matches = get_close_matches(word, list(candidates), n=1, cutoff=0.6)
    return matches[0] if matches else ""


class Terminated(BaseException):
    """SIGTERM was received."""


class AblateError(Exception):
    """Base of all expected errors; ``exit_code`` is the process's exit code, the text is what the user reads."""

    exit_code = 1

    def __init__(self, *problems: Problem) -> None:
        self.problems = problems
        super().__init__("\n".join(str(problem) for problem in problems))


class BadInput(AblateError):
    """The grid, the trainable, its data or a command-line argument is wrong."""

    exit_code = 2


class TrialsFailed(AblateError):
    """Some trials failed; the others are recorded."""

    exit_code = 3


class UnmetPlacement(AblateError):
    """An arm asks for resources that no machine here offers."""

    exit_code = 4


class VerdictReached(AblateError):
    """A comparison came out as the user said it must not (``verdict --fail-on``); audits use its code."""

    exit_code = 5


class StoreError(AblateError):
    """The store is locked, full, read-only, unreachable or damaged."""

    exit_code = 6
