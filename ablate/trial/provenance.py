"""What a trial ran on, and what it used: machine, versions, threads that did work, time, memory."""

from __future__ import annotations

import platform
import resource
import socket
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

import ablate
from ablate.trial.cpu import cpu_model


def threads_used(task: Path = Path("/proc/self/task")) -> int | None:
    """Return how many threads of this process used CPU time so far (utime + stime > 0); None without /proc."""
    if not task.exists():
        return None
    used = 0
    for thread in task.iterdir():
        try:
            fields = (thread / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # the thread ended meanwhile
            continue
        used += int(fields[11]) + int(fields[12]) > 0
    return used


@dataclass
class Usage:
    """Starts counting wall and CPU seconds when made."""

    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    _wall: float = field(default_factory=time.perf_counter)
    _cpu: float = field(default_factory=time.process_time)

    def columns(self) -> dict[str, Any]:
        """Return the usage columns of ``trials``; seconds since this object was made, peak memory of the process."""
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return {
            "started_utc": self.started,
            "wall_s": time.perf_counter() - self._wall,
            "cpu_s": time.process_time() - self._cpu,
            "threads_used": threads_used(),
            "peak_memory_bytes": peak if platform.system() == "Darwin" else peak * 1024,
        }


def machine_columns() -> dict[str, Any]:
    """Return the columns of ``trials`` that name the machine and the versions."""
    return {
        "host": socket.gethostname(),
        "cpu_model": cpu_model(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "ablate": ablate.__version__,
    }
