"""One pass over the losses, which are nearly all of a store: everything that an analysis needs of them at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ablate.record.reader import Run
from analysis.divergence import Parting, part
from analysis.pairing import Matching, by_block
from analysis.run_data import read_blocks
from analysis.trials import Trial


@dataclass(frozen=True)
class BatchPass:
    """What the losses say.

    Attributes:
        partings: of each contrast, how its matched pairs part, as far as both have batches.
        windows: values of the outcome's window of batches, by trial id; empty unless a metric was asked for.
        present: how many batches each trial has.
    """

    partings: tuple[list[Parting], ...]
    windows: dict[str, list[float | None]]
    present: dict[str, int]


def pass_over(run: Run, trials: Sequence[Trial], contrasts: Sequence[Matching], metric: str) -> BatchPass:
    """Read each block's losses once, and compare every contrast's pairs in it.

    Args:
        run: the store.
        trials: every planned trial.
        contrasts: the matched trials of each.
        metric: column of which the outcome is a mean; empty if the outcome is not of the batches.
    """
    found = BatchPass(tuple([] for _ in contrasts), {}, {})
    of_block = [by_block(one.matches) for one in contrasts]
    for rows in read_blocks(run, trials, metric=metric):
        found.windows.update(rows.windows)
        found.present.update((name, len(trace.loss)) for name, trace in rows.traces.items())
        for partings, matches in zip(found.partings, of_block, strict=True):
            for match in matches.get(rows.block, ()):
                mine, theirs = rows.traces.get(match.reference.trial_id), rows.traces.get(match.other.trial_id)
                if mine is not None and theirs is not None:
                    partings.append(part(rows.block, mine, theirs))
    return found
