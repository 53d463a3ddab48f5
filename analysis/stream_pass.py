"""Which streams matched trials share, batch by batch; only hashes that are not stored alike are decoded."""

from __future__ import annotations

from collections.abc import Sequence

from ablate.record.reader import Run
from analysis.confounding import CONTENTS, ORDER, Compared, compare_batches
from analysis.pairing import Match
from analysis.run_data import read_hashes

Found = list[tuple[str, Compared]]
COLUMNS = {"order_hash": ORDER, "content_hash": CONTENTS}


def streams_of(run: Run, contrasts: Sequence[Sequence[Match]]) -> list[list[Found]]:
    """Compare the hashes of watched batches of matched trials.

    Args:
        run: the store.
        contrasts: the matched pairs of each.

    Returns:
        For each contrast and pair the streams that both recorded, and what became of them.
    """
    matches = [match for own in contrasts for match in own]
    trials = dict.fromkeys(trial_id for match in matches for trial_id in _ids(match))
    stored = run.stored(trials, ["batch_index", *COLUMNS])
    known: dict[tuple[str, str], Found] = {}
    unlike: dict[int, list[Match]] = {}
    for match in matches:
        mine, theirs = (stored.get(trial_id) for trial_id in _ids(match))
        if mine is not None and mine == theirs:
            watched = zip(COLUMNS.values(), mine[1:], strict=True)
            known[_ids(match)] = [(name, Compared(False)) for name, column in watched if column.values]
        else:
            unlike.setdefault(match.block, []).append(match)
    groups = [list(dict.fromkeys(trial_id for match in own for trial_id in _ids(match))) for own in unlike.values()]
    decoded = read_hashes(run, groups) if groups else ()
    for own, hashes in zip(unlike.values(), decoded, strict=True):
        for match in own:
            mine, theirs = _ids(match)
            both = mine in hashes and theirs in hashes
            known[mine, theirs] = compare_batches(hashes[mine], hashes[theirs]) if both else []
    return [[known[_ids(match)] for match in own] for own in contrasts]


def _ids(match: Match) -> tuple[str, str]:
    return match.reference.trial_id, match.other.trial_id
