"""What a pristine trial costs beside its own arithmetic, and what a launch does until its first batch.

    PYTHONPATH=. python benchmarks/launch_overhead.py [--repeats N] [--json FILE] [--trials N] [--plain N]

200 trials of three tiny batches, two at once, through ``ablate launch`` (each in a process forked for it, recorded, and
the table printed at the end), without audit and guard and with both as a grid has them by default; beside plain Tune,
a fresh worker and ``import torch`` a trial, which runs fewer and is scaled. All take turns. A trial's share is the time
from the first batch of the first trial until the command has ended, over the trials that began after that.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from benchmarks.launched import AT_ONCE, QUIET, Times, ablate, place, plain
from benchmarks.measured import Comparison, arguments, report

TITLE = "A pristine trial's overhead, and a launch's fixed start"
TARGET_MS, TARGET_RATIO, TARGET_START = 150, 20, 1.2
PEER = "plain Tune, a worker and import torch a trial"


def ours(trials: int, *words: str, **keys: str) -> Times:
    """Launch so many trials, half of them a repetition of the other half."""
    with place("ours") as here:
        return here.run(ablate(here.grid(blocks=trials // 2, **keys), *words), trials)


def plain_tune(trials: int) -> Times:
    """Run so many trials by plain Tune; its end is when its ``fit`` returned."""
    with place("plain") as here:
        times = here.run(plain(here.folder, trials), trials)
        fitted = float(here.printed().rpartition("fitted at ")[2].split()[0])
        return Times(times.began, fitted, times.marks)


def rows(quiet: Sequence[Times], audited: Sequence[Times], peer: Sequence[Times], trials: int) -> list[Comparison]:
    """Compare what was measured."""
    peers_ms, scaled = [1e3 * one.each_s for one in peer], len(peer[0].marks)
    found = []
    for what, times in (("audit and guard off", quiet), ("audit and guard as by default", audited)):
        each_ms = [1e3 * one.each_s for one in times]
        found.append(
            Comparison(
                f"overhead of a pristine trial, {trials} trials, {AT_ONCE} at once, {what}",
                "ms",
                tuple(each_ms),
                PEER,
                tuple(peers_ms),
                f"<= {TARGET_MS} ms, >= {TARGET_RATIO} times less",
                median(each_ms) <= TARGET_MS and median(peers_ms) >= TARGET_RATIO * median(each_ms),
                f"plain Tune: {scaled} trials, its shutdown apart; ours holds the gap table and the shutdown",
            )
        )
    starts, peers = [one.start_s for one in quiet], [one.start_s for one in peer]
    found.append(
        Comparison(
            f"from `ablate launch` to the first batch, {trials} trials",
            "s",
            tuple(starts),
            PEER,
            tuple(peers),
            f"<= {TARGET_START} times",
            median(starts) <= TARGET_START * median(peers),
            "ours makes every block's initial weights meanwhile",
        )
    )
    return found


def main() -> None:
    parser = arguments(__doc__, repeats=3)
    parser.add_argument("--trials", type=int, default=200, help="of ours")
    parser.add_argument("--plain", type=int, default=8, help="trials of plain Tune")
    asked = parser.parse_args()
    quiet, audited, peer = [], [], []
    for _ in range(asked.repeats):
        quiet.append(ours(asked.trials, **QUIET))
        peer.append(plain_tune(asked.plain))
        audited.append(ours(asked.trials))
    report(TITLE, rows(quiet, audited, peer, asked.trials), asked.json)


if __name__ == "__main__":
    main()
