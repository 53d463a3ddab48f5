"""Launches for the benchmarks, ours and plain Tune's: started, timed from outside, and ended with all they started."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

HERE = Path(__file__).resolve().parent
TRAINABLES = HERE / "launch_trainables.py"
PLAIN_TUNE = HERE / "plain_tune.py"
ABLATE = Path(sys.executable).with_name("ablate")

CORES = sorted(os.sched_getaffinity(0))[:2]
"""What every launch here may use: so many trials run at once."""

AT_ONCE = len(CORES)

STUDY = "launched"
QUIET = {"guard": "{first: 0, every: 0}", "audit": "{first: 0}"}
"""The grid's words for: nothing is watched, nothing is held against float64."""

LONGEST_S = 900.0
DYING_S = 20.0
"""How long what a killed launch started may take to end by itself."""


@dataclass(frozen=True)
class Times:
    """A launch that ended, by the wall clock: when it began and ended, and when each trial's first batch was."""

    began: float
    ended: float
    marks: tuple[float, ...]

    @property
    def start_s(self) -> float:
        """Seconds from the command to the first batch of the first trial."""
        return self.marks[0] - self.began

    @property
    def each_s(self) -> float:
        """Seconds a trial, once the first batch was reached; the trials that were begun with it began before."""
        return (self.ended - self.marks[0]) / (len(self.marks) - AT_ONCE)

    @property
    def period_s(self) -> float:
        """Seconds from the begin of a trial to the begin of the next in its place: start and end of a launch apart."""
        first, last = self.marks[:AT_ONCE], self.marks[-AT_ONCE:]
        return (sum(last) - sum(first)) / AT_ONCE / (len(self.marks) / AT_ONCE - 1)


class Place:
    """A folder with a grid and its trainable; what is started here carries a mark, and is found again by it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.marks = folder / "marks.txt"
        self._name = f"BENCHMARK_PLACE={uuid.uuid4().hex}"
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(TRAINABLES, folder)

    def grid(self, blocks: int, arms: str = "{one: {}, again: {repeat: one}}", **keys: object) -> Path:
        """Write a grid of the trainable; ``keys`` are further ones at its top level."""
        said = {
            "study": STUDY,
            "question": "What does it cost to launch a trial?",
            "trainable": "launch_trainables:Perceptron",
            "blocks": blocks,
            "batches": 3,
            "outcome": "{metric: loss, last: 1}",
            "arms": arms,
            **keys,
        }
        path = self.folder / "grid.yaml"
        path.write_text("".join(f"{key}: {value}\n" for key, value in said.items()))
        return path

    @property
    def store(self) -> Path:
        """The store of the grid's study."""
        return self.folder / "runs" / STUDY

    def start(self, command: Sequence[object]) -> subprocess.Popen[str]:
        """Start a command on ``CORES``; trials leave their marks from here on."""
        self.marks.write_text("")
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("RAY_", "TUNE_"))}
        name, _, value = self._name.partition("=")
        with (self.folder / "printed.txt").open("w") as printed:
            return subprocess.Popen(
                [str(word) for word in command],
                cwd=self.folder,
                env={**kept, name: value, "BENCHMARK_MARKS": str(self.marks), "COLUMNS": "100"},
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
                text=True,
                preexec_fn=_on_cores,
            )

    def run(self, command: Sequence[object], trials: int, code: int = 0) -> Times:
        """Run a command to its end.

        Raises:
            RuntimeError: it ended with another code, or other than so many trials began: with what it printed.
        """
        began = time.time()
        process = self.start(command)
        found = process.wait(LONGEST_S)
        ended, marks = time.time(), self.begun()
        if found != code or len(marks) != trials:
            raise RuntimeError(f"ended with {found}, {len(marks)} of {trials} trials began\n{self.printed()}")
        return Times(began, ended, marks)

    def begun(self) -> tuple[float, ...]:
        """Return when the trials that began so far had their first batch, in order; a torn last line is left."""
        return tuple(sorted(float(line) for line in self.marks.read_text().split("\n")[:-1]))

    def wait_for(self, process: subprocess.Popen[str], trials: int) -> float:
        """Wait until so many trials have begun; return when the last of them did.

        Raises:
            RuntimeError: the command ended before, or took too long: with what it printed.
        """
        deadline = time.monotonic() + LONGEST_S
        while len(self.begun()) < trials:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{len(self.begun())} of {trials} trials began\n{self.printed()}")
            time.sleep(0.02)
        return self.begun()[trials - 1]

    def printed(self) -> str:
        """Return what the command printed."""
        return (self.folder / "printed.txt").read_text(errors="replace")

    def kill(self, process: subprocess.Popen[str]) -> None:
        """Kill a launch as a crash would, and wait until what it had started is gone, or end that too."""
        process.kill()
        process.wait()
        deadline = time.monotonic() + DYING_S
        while self._running() and time.monotonic() < deadline:
            time.sleep(0.2)
        self.end_all()

    def end_all(self) -> None:
        """Kill whatever was started here and still runs."""
        for pid in self._running():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _running(self) -> list[int]:
        found = []
        for entry in Path("/proc").iterdir():
            with suppress(OSError):  # it has ended meanwhile, or is another user's
                if entry.name.isdigit() and self._name.encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
        return found


@contextmanager
def place(name: str) -> Iterator[Place]:
    """Give a place that is removed in the end, with whatever still runs there."""
    with tempfile.TemporaryDirectory(prefix="ablate-benchmark-") as parent:
        made = Place(Path(parent) / name)
        try:
            yield made
        finally:
            made.end_all()


def ablate(grid: Path, *words: object) -> list[object]:
    """Return the command that launches a grid."""
    return [ABLATE, "launch", grid.name, *words]


def plain(folder: Path, trials: int, *words: object) -> list[object]:
    """Return the command that runs so many trials by plain Tune."""
    return [sys.executable, PLAIN_TUNE, folder, trials, *words]


def bare_s(width: int, rows: int, batches: int) -> float:
    """Return the seconds of the bare loop, the mean of as many at once as there are trials at once."""
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent)}
    command = [sys.executable, str(TRAINABLES), str(width), str(rows), str(batches)]
    processes = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, preexec_fn=_on_cores)
        for _ in CORES
    ]
    return mean(float(process.communicate()[0]) for process in processes)


def _on_cores() -> None:
    os.sched_setaffinity(0, CORES)


def resident_mb(pid: int) -> float:
    """Return how much memory a process holds, in MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
