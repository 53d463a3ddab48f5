"""What one command costs from its start to its end, in a process of its own: wall, CPU and peak memory."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ABLATE = (sys.executable, "-c", "from ablate.cli import main; main()")
ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Cost:
    """One process: seconds on the clock, seconds of CPU, its largest resident size in bytes, and what it printed."""

    wall_s: float
    cpu_s: float
    peak_bytes: int
    out: str


def run(words: Sequence[str | Path]) -> Cost:
    """Run a command and wait for it; its threads are as many as it takes by itself.

    CPU and memory are those of the process and of the children that it waited for; of memory the largest of these
    counts, not their sum.

    Raises:
        RuntimeError: it failed; what it wrote to standard error is in the message.
    """
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    environment["PYTHONPATH"] = str(ROOT)
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as said:
        began = time.perf_counter()
        process = subprocess.Popen(list(map(str, words)), stdout=out, stderr=said, env=environment)
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        said.seek(0)
        if process.returncode:
            raise RuntimeError(f"{' '.join(map(str, words))} ended with {process.returncode}: {said.read()[-2000:]}")
        return Cost(wall, used.ru_utime + used.ru_stime, 1024 * used.ru_maxrss, out.read())
