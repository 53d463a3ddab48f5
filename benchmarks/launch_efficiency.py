"""How much of a launch's time goes into batches, for trials of ten seconds: bare seconds over seconds a trial takes.

    PYTHONPATH=. python benchmarks/launch_efficiency.py [--repeats N] [--json FILE] [--trials N] [--seconds S]

The bare loop runs as many times at once as trials do, so that both share the machine's memory alike. A trial's time is
from its first batch to the first batch of the next trial in its place: what a launch costs once, at its start and at
its end, is left out for both (``launch_overhead.py`` has the start). The bare loop draws by ``torch.randn``, a trial by
a stream of the study, whose bits are the same on every machine: the note says what that takes.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import mean, median

import torch

from ablate.trial.draw import Draw, Stream
from benchmarks import launch_trainables
from benchmarks.launched import AT_ONCE, QUIET, Times, ablate, bare_s, place, plain
from benchmarks.measured import Comparison, arguments, report

TITLE = "Launch efficiency"
TARGET = 0.95
WIDTH, ROWS = 256, 256
"""Of the perceptron and of a batch, which then takes some milliseconds."""


def batches_of(seconds: float) -> int:
    """Return how many batches take so long, bare, as many processes at once as trials."""
    tried = 500
    return max(1, round(tried * seconds / bare_s(WIDTH, ROWS, tried)))


def ours(trials: int, batches: int, **keys: str) -> Times:
    """Launch so many trials."""
    with place("ours") as here:
        settings = f"{{width: {WIDTH}, rows: {ROWS}}}"
        grid = here.grid(blocks=trials // 2, settings=settings, **{"batches": batches, **keys})
        return here.run(ablate(grid), trials)


def plain_tune(trials: int, batches: int) -> Times:
    """Run so many trials by plain Tune."""
    with place("plain") as here:
        words = ("--batches", batches, "--width", WIDTH, "--rows", ROWS)
        return here.run(plain(here.folder, trials, *words), trials)


def drawing_us(stretches: int = 20, batches: int = 50, width: int = WIDTH, rows: int = ROWS) -> float:
    """Return how much more processor time a bare batch takes that a stream draws, by stretches that take turns."""
    torch.set_num_threads(1)
    points = Draw("drawing", 0)("points")
    more = [_bare_cpu_s(width, rows, batches, points) - _bare_cpu_s(width, rows, batches) for _ in range(stretches + 1)]
    return median(more[1:]) / batches * 1e6


def _bare_cpu_s(width: int, rows: int, batches: int, points: Stream | None = None) -> float:
    began = time.thread_time()
    launch_trainables.bare(width, rows, batches, points)
    return time.thread_time() - began


def rows(
    measured: Sequence[tuple[float, Times, Times, Times]],
    trials: int,
    seconds: float,
    batches: int,
    drawing: float,
) -> list[Comparison]:
    """Compare what was measured: of each repeat bare seconds, ours without audit and guard, ours with, plain Tune.

    Args:
        measured: the repeats.
        trials: of a launch.
        seconds: about, of a bare loop.
        batches: of a trial.
        drawing: what ``drawing_us`` found.
    """
    quiet = [alone / one.period_s for alone, one, _, _ in measured]
    audited = [alone / one.period_s for alone, _, one, _ in measured]
    peer = tuple(alone / one.period_s for alone, _, _, one in measured)
    alone_s = median(alone for alone, *_ in measured)
    share = drawing * 1e-6 * batches / alone_s
    note = (
        f"bare {alone_s:.3g} s a trial; the study's draws take {drawing:.0f} us a batch more than torch's, {share:.1%}"
    )
    what = f"bare seconds over a trial's, {trials} trials of {batches} batches (~{seconds:g} s), {AT_ONCE} at once"
    return [
        Comparison(
            f"{what}, {how}",
            "",
            tuple(values),
            "plain Tune",
            peer,
            f">= {TARGET}",
            median(values) >= TARGET,
            note,
        )
        for how, values in (("audit and guard off", quiet), ("audit and guard as by default", audited))
    ]


def main() -> None:
    parser = arguments(__doc__, repeats=1)
    parser.add_argument("--trials", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=10.0, help="of a trial's bare loop")
    asked = parser.parse_args()
    batches, measured = batches_of(asked.seconds), []
    for _ in range(asked.repeats):
        before = bare_s(WIDTH, ROWS, batches)
        quiet = ours(asked.trials, batches, **QUIET)
        peer = plain_tune(asked.trials, batches)
        audited = ours(asked.trials, batches)
        measured.append((mean((before, bare_s(WIDTH, ROWS, batches))), quiet, audited, peer))
    report(TITLE, rows(measured, asked.trials, asked.seconds, batches, drawing_us()), asked.json)


if __name__ == "__main__":
    main()
