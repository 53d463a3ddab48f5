"""Whom the numbers of a run speak of: new seeds, on these machines, on this data."""

from __future__ import annotations

import pyarrow as pa

from analysis.digits import plural


def population(recorded: pa.Table) -> str:
    """Return the sentence that every caption ends with.

    Args:
        recorded: the ``trials`` data set.
    """
    hosts = {host for host in recorded["host"].to_pylist() if host}
    where = plural(len(hosts), "machine") if hosts else "machines that were not recorded"
    these = {0: where, 1: "this one machine"}.get(len(hosts), f"these {where}")
    return f"It speaks of new seeds on {these} and this data, not of other machines."
