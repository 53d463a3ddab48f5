"""``--fail-on``: which verdicts a script wants to hear of by the exit code."""

from __future__ import annotations

from typing import get_args

from ablate.errors import BadInput, Problem, VerdictReached, nearest
from analysis.headline import Cause, Headline
from analysis.verdict import ContrastVerdict, VerdictReport

KNOWN = tuple(dict.fromkeys((*get_args(Headline), *get_args(Cause))))
FAULTS = ("BUG", "CONFOUNDED")


def wanted(text: str) -> frozenset[str]:
    """Return headlines and causes from ``bug,confounded``; a hyphen or an underscore may stand for a blank.

    Raises:
        BadInput: a word is neither.
    """
    words = [word.strip().upper().replace("-", " ").replace("_", " ") for word in text.split(",")]
    known = [word.lower().replace(" ", "-") for word in KNOWN]
    problems = [
        Problem("--fail-on", f"{word.lower()!r} is no verdict", ", ".join(known), nearest(word.lower(), known))
        for word in words
        if word not in KNOWN
    ]
    if problems:
        raise BadInput(*problems)
    return frozenset(words)


def fail_on(report: VerdictReport, words: frozenset[str]) -> None:
    """Raise if a contrast has one of these headlines or causes; of a control only a fault counts.

    Raises:
        VerdictReached: naming each such contrast; its exit code is 5.
    """
    found = [(one, found) for one in report.contrasts if (found := sorted(_words(one) & words))]
    if found:
        raise VerdictReached(*(Problem(one.label, ", ".join(words)) for one, words in found))


def _words(one: ContrastVerdict) -> set[str]:
    words = {str(one.headline), str(one.cause)}
    return words & set(FAULTS) if one.control else words
