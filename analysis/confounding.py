"""Did both sides of a contrast start from the same weights, see the same batches and draw the same numbers?

Compared are the hashes that each trial recorded before its arm's declared perturbation, which has a hash of its own: a
declared perturbation is never taken for confounding.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from analysis.audit_row import AuditRow
from analysis.divergence import Index, in_both
from analysis.pairing import Match
from analysis.trials import STREAMS

CUMULATIVE = ("order_hash", "draw_hash")
"""Hashes over all batches so far: comparable only between trials that ran equally many."""

ORDER = STREAMS["order_hash"]
CONTENTS = "batch contents"
GLOBAL_DRAWS = "draws of torch's global generator outside the streams"
OF_OTHERS = {
    "numpy": "draws of NumPy's global generator outside the streams",
    "random": "draws of Python's global generator outside the streams",
}
NAMES = (STREAMS["initial_hash"], STREAMS["data_hash"], ORDER, CONTENTS, STREAMS["draw_hash"])
IF_SEEN = (GLOBAL_DRAWS, *OF_OTHERS.values())
"""Streams that nothing is missing of where they were not recorded: most models do not draw that way."""


States = Mapping[tuple[int, str], tuple[str, bool]]
"""States of torch's global generators after audited batches, as text, by batch and generator, and whether the batch
drew from it: one that nobody draws from may stand where it likes."""


@dataclass(frozen=True)
class Hashes:
    """Hashes of one trial's batches, Arrow arrays of shape (batches,), null where a batch was not watched.

    Attributes:
        batch_index: ascending.
        order: of all batches so far.
        content: of the batch.
    """

    batch_index: Index
    order: Any
    content: Any


@dataclass(frozen=True)
class Mismatch:
    """One random or data stream that differs between the two sides.

    Attributes:
        stream: its name in words.
        blocks: blocks with a matched pair in which it differs, ascending.
        batch: first watched batch where it differs in the first of those blocks; None when it is one hash a trial.
    """

    stream: str
    blocks: tuple[int, ...]
    batch: int | None

    def __str__(self) -> str:
        at = "" if self.batch is None else f", seen at batch {self.batch}"
        more = f" and {len(self.blocks) - 1} more" if len(self.blocks) > 1 else ""
        return f"{self.stream} (block {self.blocks[0]}{more}{at})"


@dataclass(frozen=True)
class Streams:
    """Comparison of a contrast's streams.

    Attributes:
        compared: names of the streams that at least one matched pair recorded on both sides.
        missing: names of the others, about which nothing can be said.
        mismatches: those that differ; empty if all that were compared are equal.
    """

    compared: tuple[str, ...]
    missing: tuple[str, ...]
    mismatches: tuple[Mismatch, ...]


@dataclass(frozen=True)
class Compared:
    """One stream of one matched pair: whether it differs, and the first watched batch where it does."""

    differs: bool
    batch: int | None = None


def sum_up(compared: Iterable[tuple[int, Sequence[tuple[str, Compared]]]]) -> Streams:
    """Return what was found of a contrast's matches, each with its block; in the order of ``NAMES``.

    Of one block what names a batch comes first: that is more than "somewhere in the trial".
    """
    seen: dict[str, list[tuple[int, Compared]]] = {name: [] for name in (*NAMES, *IF_SEEN)}
    for block, streams in compared:
        for name, one in streams:
            seen[name].append((block, one))
    mismatches = []
    for name, found in seen.items():
        unequal = [(block, one.batch) for block, one in found if one.differs]
        if unequal:
            blocks = tuple(sorted({block for block, _ in unequal}))
            mismatches.append(Mismatch(name, blocks, next(batch for block, batch in unequal if block == blocks[0])))
    return Streams(
        compared=tuple(name for name in NAMES if seen[name]),
        missing=tuple(name for name in NAMES if not seen[name]),
        mismatches=tuple(mismatches),
    )


def generator_states(rows: Iterable[AuditRow]) -> States:
    """Return the states of generators that one trial's audits recorded."""
    states = (row for row in rows if row.check == "draw_state" and row.detail)
    return {(row.batch_index, row.near): (row.detail, row.verdict != "clean") for row in states}


def drew_otherwise(matches: Sequence[Match], audits: Mapping[str, Sequence[AuditRow]]) -> Mismatch | None:
    """Return the mismatch of trials whose own draws, from an equal generator, gave other numbers than in float64.

    Args:
        matches: matched pairs of trials.
        audits: rows by trial id.
    """
    found = [
        (match.block, row.batch_index)
        for match in matches
        for trial in (match.reference, match.other)
        for row in audits.get(trial.trial_id, ())
        if row.verdict == "confounded"
    ]
    blocks = tuple(sorted({block for block, _ in found}))
    return Mismatch(GLOBAL_DRAWS, blocks, min(batch for block, batch in found if block == blocks[0])) if found else None


def compare_trials(match: Match) -> list[tuple[str, Compared]]:
    """Compare the streams of one matched pair by the hashes that each trial has once; one that never ran has none."""
    mine, theirs = match.reference, match.other
    found = []
    for column, name in STREAMS.items():
        a, b = mine.hashes.get(column), theirs.hashes.get(column)
        if a is not None and b is not None and (column not in CUMULATIVE or mine.batches == theirs.batches):
            found.append((name, Compared(a != b)))
    return found


def compare_batches(a: Hashes, b: Hashes) -> list[tuple[str, Compared]]:
    """Compare the streams of one matched pair batch by batch, where both were watched."""
    both = in_both(a.batch_index, b.batch_index)
    batches = a.batch_index if both is None else both[0]
    found = []
    for name, mine, theirs in ((ORDER, a.order, b.order), (CONTENTS, a.content, b.content)):
        if both is not None:
            mine, theirs = mine.take(pa.array(both[1])), theirs.take(pa.array(both[2]))
        same = pc.equal(mine, theirs)  # null where either was not watched
        alike = pc.all(same).as_py()
        if alike is not None:
            found.append((name, Compared(not alike, None if alike else int(batches[pc.index(same, False).as_py()]))))
    return found


def compare_generators(match: Match, states: Mapping[str, States]) -> list[tuple[str, Compared]]:
    """Compare the states of one matched pair's generators; of equal ones there is nothing to say.

    Args:
        match: the pair.
        states: by trial id.
    """
    a, b = states.get(match.reference.trial_id, {}), states.get(match.other.trial_id, {})
    if a == b:
        return []
    found = []
    for name in sorted({name for _, name in a.keys() & b.keys()}):
        common = [key for key in a.keys() & b.keys() if key[1] == name and (a[key][1] or b[key][1])]
        first = min((key[0] for key in common if a[key][0] != b[key][0]), default=None)
        if common:
            found.append((OF_OTHERS.get(name, GLOBAL_DRAWS), Compared(first is not None, first)))
    return found
