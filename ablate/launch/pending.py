"""How many trials ask Ray for their place at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ablate.launch.placement import available_cores

FEW = 16
"""Enough to keep places filled where nobody looks at what waits."""


def pending_limit(requests: Sequence[Mapping[str, float]], on_cluster: bool) -> int:
    """Return how many trials may wait for a place at once; Tune stops asking for further ones beyond that.

    On a cluster it is all of them: an autoscaler adds nodes for what it is asked for. Where requests differ too, or
    those that wait for a scarce resource would take up the limit, and trials that could run would not be asked for. The
    first trial waits until all have asked, some 10 to 30 ms each, so where neither matters only a few do.

    Args:
        requests: of every trial.
        on_cluster: whether nodes may be added.
    """
    kinds = {tuple(sorted(request.items())) for request in requests}
    return len(requests) if on_cluster or len(kinds) > 1 else max(FEW, available_cores())
