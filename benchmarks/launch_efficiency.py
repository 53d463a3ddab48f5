"""How much of a launch's time goes into batches, for trials of ten seconds: bare seconds over seconds a trial takes.

    PYTHONPATH=. python benchmarks/launch_efficiency.py [--repeats N] [--json FILE] [--trials N] [--seconds S]

The bare loop runs as many times at once as trials do, so that both share the machine's memory alike. A trial's time is
from its first batch to the first batch of the next trial in its place: what a launch costs once, at its start and at
its end, is left out for both (``launch_overhead.py`` has the start). The bare loop draws by ``torch.randn``, a trial by
a stream of the study, whose bits are the same on every machine: the note says what that takes.

What a batch costs beside its computing (drawn, hashed, recorded, sketched every tenth) is the same for short ones and
long ones, so both are measured: of one and a half and of about thirty milliseconds, as the shipped PredNet's are.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import mean, median
from typing import NamedTuple

import torch

from ablate.trial.draw import Draw
from benchmarks import launch_trainables
from benchmarks.launched import AT_ONCE, QUIET, Times, ablate, bare_s, place, plain
from benchmarks.measured import Comparison, arguments, report

TITLE = "Launch efficiency"
TARGET = 0.95


class Size(NamedTuple):
    """Width of the perceptron and rows of a batch, and how many batches tell how long one takes."""

    width: int
    rows: int
    tried: int


SIZES = (Size(256, 256, tried=500), Size(512, 2048, tried=50))


def batches_of(size: Size, seconds: float) -> int:
    """Return how many batches take so long, bare, as many processes at once as trials."""
    return max(1, round(size.tried * seconds / bare_s(size.width, size.rows, size.tried)))


def ours(size: Size, trials: int, batches: int, **keys: str) -> Times:
    """Launch so many trials."""
    with place("ours") as here:
        settings = f"{{width: {size.width}, rows: {size.rows}}}"
        grid = here.grid(blocks=trials // 2, settings=settings, **{"batches": batches, **keys})
        return here.run(ablate(grid), trials)


def plain_tune(size: Size, trials: int, batches: int) -> Times:
    """Run so many trials by plain Tune."""
    with place("plain") as here:
        words = ("--batches", batches, "--width", size.width, "--rows", size.rows)
        return here.run(plain(here.folder, trials, *words), trials)


def drawing_us(size: Size, batches: int = 50) -> float:
    """Return how much more processor time a stream takes for a batch than torch: each draws before a step, in turns."""
    torch.set_num_threads(1)
    network, points = launch_trainables.model(size.width), Draw("drawing", 0)("points")
    optimiser, shape = launch_trainables.sgd(network), (size.rows, 8)
    more = []
    for _ in range(batches):
        took = []
        for draw in (points.normal, torch.randn):
            began = time.thread_time()
            x = draw(shape)
            took.append(time.thread_time() - began)
            launch_trainables.step(network, optimiser, x)
        more.append(took[0] - took[1])
    return median(more) * 1e6


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
    each = f"batches of {1e3 * alone_s / batches:.2g} ms"
    what = f"bare seconds over a trial's, {trials} trials of {batches} {each} (~{seconds:g} s), {AT_ONCE} at once"
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


def measure(size: Size, trials: int, seconds: float, repeats: int) -> list[Comparison]:
    """Measure batches of one size."""
    batches, measured = batches_of(size, seconds), []
    for _ in range(repeats):
        before = bare_s(size.width, size.rows, batches)
        quiet = ours(size, trials, batches, **QUIET)
        peer = plain_tune(size, trials, batches)
        audited = ours(size, trials, batches)
        measured.append((mean((before, bare_s(size.width, size.rows, batches))), quiet, audited, peer))
    return rows(measured, trials, seconds, batches, drawing_us(size))


def main() -> None:
    parser = arguments(__doc__, repeats=1)
    parser.add_argument("--trials", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=10.0, help="of a trial's bare loop")
    asked = parser.parse_args()
    found = [row for size in SIZES for row in measure(size, asked.trials, asked.seconds, asked.repeats)]
    report(TITLE, found, asked.json)


if __name__ == "__main__":
    main()
