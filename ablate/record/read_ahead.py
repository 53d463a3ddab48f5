"""Reads one group of trials after the other, the next rows while the caller looks at these."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from ablate.record.attempt_rows import AttemptRows

AT_WORK = 2
"""Reads that go on at once: Arrow decodes one column on one core only."""


def read_ahead(
    rows: AttemptRows, groups: Iterable[Collection[str]], schema: Any, at_once: int, last: int | None
) -> Iterator[dict[str, Any]]:
    """Yield for each group the table of each trial that has rows.

    Args:
        rows: where they are.
        groups: ids of the trials in each.
        schema: the columns to read.
        at_once: groups are read in one call until they have so many rows together.
        last: of each attempt so many rows at the end; None for all.

    Raises:
        StoreError: if a part cannot be read.
    """
    with ThreadPoolExecutor(AT_WORK) as ahead:
        waiting: deque[tuple[list[Collection[str]], Future[dict[str, Any]]]] = deque()
        for some in _together(groups, rows.count, at_once):
            trials = [trial_id for group in some for trial_id in group]
            waiting.append((some, ahead.submit(rows.of_trials, trials, schema, last)))
            if len(waiting) > AT_WORK:
                yield from _shared_out(*waiting.popleft())
        while waiting:
            yield from _shared_out(*waiting.popleft())


def _together(
    groups: Iterable[Collection[str]], count: Callable[[str], int], at_once: int
) -> Iterator[list[Collection[str]]]:
    """Put groups together until they have so many rows that reading them is worth a call."""
    some: list[Collection[str]] = []
    rows = 0
    for group in groups:
        some.append(group)
        rows += sum(map(count, group))
        if rows >= at_once:
            yield some
            some, rows = [], 0
    if some:
        yield some


def _shared_out(groups: list[Collection[str]], read: Future[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    found = read.result()
    for group in groups:
        yield {trial_id: found[trial_id] for trial_id in group if trial_id in found}
