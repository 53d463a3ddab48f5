"""Ends what an embedded Ray leaves behind when its launch is killed.

A driver that dies by SIGKILL takes raylet and GCS with it, as Ray asks the kernel to, but not the node's two agents:
each tries for 60 s to tell the dead GCS that its raylet is gone (``report_raylet_error_logs`` in Ray's
``process_watcher``).

    python -m ablate.launch.ray_leftovers PID...       # waits for the end of its standard input
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress

import psutil

GRACE_S = 1.0
"""For what ends by itself when the raylet does."""


def raylets_own() -> list[int]:
    """Return the processes that raylets started, of which this process started the raylet: its agents and workers."""
    with suppress(psutil.Error):
        raylets = [child for child in psutil.Process().children() if child.name() == "raylet"]
        return [process.pid for raylet in raylets for process in raylet.children(recursive=True)]
    return []


def watch(pids: Iterable[int]) -> subprocess.Popen[bytes]:
    """Start a process that ends these once this one is gone; terminate it where nothing is left to end."""
    words = [sys.executable, "-m", "ablate.launch.ray_leftovers", *map(str, pids)]
    silent = subprocess.DEVNULL
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=silent, stderr=silent, start_new_session=True)


def _known(pids: Iterable[str]) -> Iterator[psutil.Process]:
    for pid in pids:
        with suppress(psutil.Error):
            yield psutil.Process(int(pid))


def main() -> None:
    """Wait for the launch's end, then end what still runs; a process that has got an old one's id is another."""
    processes = list(_known(sys.argv[1:]))
    sys.stdin.buffer.read()
    time.sleep(GRACE_S)
    for process in processes:
        with suppress(psutil.Error):
            process.kill()  # psutil holds it against the time when the process was started


if __name__ == "__main__":
    main()
