"""What a launch of many trials costs its driver: memory over 1000 of them, and the start of one that was killed.

    PYTHONPATH=. python benchmarks/many_trials.py [--repeats N] [--json FILE] [--trials N] [--plain N]

A study of twice 1000 trivial trials is launched and killed, as by a crash, once 1000 have begun beyond the first 50;
the driver's resident memory is read at both ends. The killed study is then launched again, from a copy for each repeat,
until its first new trial. Plain Tune runs fewer trials, with reused workers that import nothing, since only its driver
is asked about; its growth is scaled to as many trials, and the killed one is restored by ``Tuner.restore``.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from benchmarks.launched import QUIET, Place, ablate, place, plain, resident_mb
from benchmarks.measured import Comparison, arguments, report

TITLE = "Many trials"
TARGET_MB, TARGET_S = 50, 10
BEGUN = 50
"""Trials that have begun when memory is first read: what is imported and made once is there by then."""


def grown_mb(here: Place, process: subprocess.Popen[str], trials: int) -> float:
    """Return by how many MB the driver grows over so many trials; it runs on."""
    here.wait_for(process, BEGUN)
    before = resident_mb(process.pid)
    here.wait_for(process, BEGUN + trials)
    return resident_mb(process.pid) - before


def first_new_s(here: Place, command: Sequence[object]) -> float:
    """Return the seconds from a command to its first trial's first batch; it is killed then."""
    began, process = time.time(), here.start(command)
    first = here.wait_for(process, 1)
    here.kill(process)
    return first - began


def killed(here: Place, command: Sequence[object], trials: int) -> float:
    """Start a command, kill it once it has done so many trials; return how its driver grew over them, in MB."""
    process = here.start(command)
    try:
        return grown_mb(here, process, trials)
    finally:
        here.kill(process)


def again_s(here: Place, kept: Path, command: Sequence[object], repeats: int) -> list[float]:
    """Return for each repeat what ``first_new_s`` says, each from a copy of what the killed launch left."""
    copy, found = here.folder / "copy", []
    shutil.copytree(kept, copy)
    for _ in range(repeats):
        shutil.rmtree(kept)
        shutil.copytree(copy, kept)
        found.append(first_new_s(here, command))
    return found


def measure(trials: int, repeats: int) -> tuple[float, list[float]]:
    """Return for ``ablate`` the growth in MB over so many trials, and the seconds of launching again."""
    with place("ours") as here:
        command = ablate(here.grid(blocks=trials + BEGUN, **QUIET))
        grown = killed(here, command, trials)
        return grown, again_s(here, here.store, command, repeats)


def measure_plain(trials: int, repeats: int) -> tuple[float, list[float]]:
    """Return for plain Tune the same."""
    with place("plain") as here:
        results = here.folder / "results"
        command = plain(results, 2 * (trials + BEGUN), "--quick")
        grown = killed(here, command, trials)
        return grown, again_s(here, results, [*command, "--restore"], repeats)


def main() -> None:
    parser = arguments(__doc__, repeats=3)
    parser.add_argument("--trials", type=int, default=1000, help="of ours, over which memory is compared")
    parser.add_argument("--plain", type=int, default=150, help="the same of plain Tune, scaled to --trials")
    asked = parser.parse_args()
    ours_mb, ours_s = measure(asked.trials, asked.repeats)
    plain_mb, plain_s = measure_plain(asked.plain, asked.repeats)
    scaled = plain_mb * asked.trials / asked.plain
    ours, theirs = asked.trials + BEGUN, asked.plain + BEGUN
    rows = [
        Comparison(
            f"growth of the driver's memory over {asked.trials} trials",
            "MB",
            (ours_mb,),
            "plain Tune",
            (scaled,),
            f"<= {TARGET_MB} MB",
            ours_mb <= TARGET_MB,
            f"plain Tune: {plain_mb:.3g} MB over {asked.plain} trials, scaled; one run of each",
        ),
        Comparison(
            f"a killed study launched again, {ours} of {2 * ours} trials done, until its first new trial",
            "s",
            tuple(ours_s),
            "Tuner.restore",
            tuple(plain_s),
            f"< {TARGET_S} s",
            median(ours_s) < TARGET_S,
            f"Tuner.restore: {theirs} of {2 * theirs} trials done, whose workers import nothing",
        ),
    ]
    report(TITLE, rows, asked.json)


if __name__ == "__main__":
    main()
