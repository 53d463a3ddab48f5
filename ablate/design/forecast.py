"""What a launch would take and what its tests could find: what ``ablate plan`` cannot say from the grid alone."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Mapping, Sequence

from ablate.design.pace import Paces
from ablate.design.trial_spec import Frozen, TrialSpec

UNKNOWN = (
    "time and power are not known: --measure times one short trial; --from RUN takes both from a past run of this model"
)


class TimeForecast(Frozen):
    """Expected time of a launch.

    Attributes:
        source: where the times come from.
        core_s: seconds that cores are taken, over all trials.
        wall_s: seconds on this machine, trials side by side as far as its cores reach; None if it cannot run them all.
        cores: this machine's cores.
        longest_trial_s: seconds of the longest trial.
        notes: what to keep in mind.
    """

    source: str
    core_s: float
    wall_s: float | None
    cores: float
    longest_trial_s: float
    notes: tuple[str, ...] = ()


class ContrastPower(Frozen):
    """What a contrast of the plan could find, by the spread that a past run had.

    Attributes:
        label: the contrast.
        blocks: blocks that are planned for it.
        seen_blocks: blocks of it in the run.
        sd: standard deviation between blocks of the gap there; None if it cannot be told.
        sd_interval: its 95 % interval, for normal gaps.
        smallest_gap: the smallest gap found with 80 % power with the planned blocks; None if none is.
        smallest_gap_percent: the same in percent of the reference's mean; None where that has no meaning.
        margin_blocks: blocks at which TOST has 90 % power if the true gap is 0; None without a margin or a spread.
        note: why something is not known; empty if all is.
    """

    label: str
    blocks: int
    seen_blocks: int = 0
    sd: float | None = None
    sd_interval: tuple[float, float] | None = None
    smallest_gap: float | None = None
    smallest_gap_percent: float | None = None
    margin_blocks: int | None = None
    note: str = ""


class Forecast(Frozen):
    """Time and power, as far as they are known.

    Attributes:
        time: expected time; None if nothing was timed.
        power: one for each contrast of the family; empty without a past run.
        notes: what is not known and how to get it, and in what the past run differs from the plan.
    """

    time: TimeForecast | None = None
    power: tuple[ContrastPower, ...] = ()
    notes: tuple[str, ...] = ()


def forecast_time(specs: Sequence[TrialSpec], paces: Paces, offered: Mapping[str, float]) -> TimeForecast:
    """Forecast the time of trials that are launched in this order.

    Args:
        specs: the trials.
        paces: how fast they run.
        offered: what this machine has, by Ray's names.
    """
    seconds = [paces.of(spec).trial_s(spec.batches, spec.guard) for spec in specs]
    needs = [spec.resources for spec in specs]
    lacking = {
        spec.arm: name for spec in specs for name, amount in spec.resources.items() if offered.get(name, 0.0) < amount
    }
    untimed = [arm for arm in dict.fromkeys(spec.arm for spec in specs) if not paces.timed(arm)]
    notes = ["starting processes, checking data and making initial weights come on top"]
    if untimed:
        notes.append(f"not timed, and taken to be as fast as the rest: {', '.join(untimed)}")
    if lacking:
        listed = ", ".join(f"{arm} ({name})" for arm, name in lacking.items())
        notes.append(f"no time on this machine, which lacks what these arms need: {listed}")
    return TimeForecast(
        source=paces.source,
        core_s=sum(second * need.get("CPU", 0.0) for second, need in zip(seconds, needs, strict=True)),
        wall_s=None if lacking else makespan(seconds, needs, offered),
        cores=offered.get("CPU", 0.0),
        longest_trial_s=max(seconds, default=0.0),
        notes=tuple(notes),
    )


def makespan(seconds: Sequence[float], needs: Sequence[Mapping[str, float]], offered: Mapping[str, float]) -> float:
    """Return when the last trial ends if each starts as soon as it fits, earlier ones first.

    Args:
        seconds: of each trial.
        needs: what each takes; each must fit on its own.
        offered: what there is.
    """
    free = dict(offered)
    waiting: dict[tuple[tuple[str, float], ...], deque[int]] = {}
    for position, need in enumerate(needs):
        waiting.setdefault(tuple(need.items()), deque()).append(position)
    running: list[tuple[float, int]] = []
    now = 0.0
    while waiting or running:
        fitting = [queue[0] for need, queue in waiting.items() if all(free[name] >= amount for name, amount in need)]
        if fitting:
            position = min(fitting)
            kind = tuple(needs[position].items())
            waiting[kind].popleft()
            if not waiting[kind]:
                del waiting[kind]
            heapq.heappush(running, (now + seconds[position], position))
            _give(free, needs[position], -1)
            continue
        now = running[0][0]
        while running and running[0][0] == now:
            _give(free, needs[heapq.heappop(running)[1]], 1)
    return now


def _give(free: dict[str, float], need: Mapping[str, float], sign: int) -> None:
    for name, amount in need.items():
        free[name] += sign * amount
