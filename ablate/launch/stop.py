"""Ends the launch that writes a store on this machine, as Ctrl-C in its terminal would."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from pathlib import Path

import psutil

from ablate.errors import BadInput, Problem, StoreError
from ablate.record.lock import holder, is_held

END_S = 90.0
"""How long a launch may take to take in what its trials acknowledged."""


def stop(lock: Path, end_s: float = END_S) -> str:
    """End the launch that holds a store's lock and wait until it has given it back.

    It is sent SIGTERM, not SIGINT: a shell starts background jobs with SIGINT ignored. A launch treats both alike.

    Args:
        lock: the store's lock file.
        end_s: how long to wait.

    Returns:
        Who held it; empty if nobody did.

    Raises:
        BadInput: the holder runs on another machine, or is not visible from here.
        StoreError: the launch cannot be ended by this user, or does not end.
    """
    if not is_held(lock):
        return ""
    words = holder(lock)
    pid = _local_pid(lock, words)
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        pass
    except PermissionError:
        raise StoreError(
            Problem(str(lock), f"{words} belongs to another user", advice="Ask them to stop it.")
        ) from None
    deadline = time.monotonic() + end_s
    while is_held(lock):
        if time.monotonic() > deadline:
            found = f"{words} was told to end, and still writes after {end_s:g} s"
            raise StoreError(
                Problem(
                    str(lock), found, advice=f"Wait, or end it with: kill -9 {pid}. What trials acknowledged is kept."
                )
            )
        time.sleep(0.1)
    return words


def _local_pid(lock: Path, words: str) -> int:
    """Return the holder's number, once it is sure that the process of this number here is the holder."""
    try:
        content = json.loads(lock.read_text())
        pid, host = int(content["pid"]), str(content["host"])
    except (OSError, ValueError, KeyError, TypeError):
        raise StoreError(Problem(str(lock), "is held, but does not say by whom", advice="Try again.")) from None
    if host != socket.gethostname():
        advice = f"Run the same command on {host}; a launch that was submitted is stopped with --address."
        raise BadInput(Problem(str(lock), f"is held by {words}, and this is {socket.gethostname()}", advice=advice))
    if not _has_open(pid, lock):
        found = f"is held by {words}, but process {pid} here is another one"
        raise BadInput(Problem(str(lock), found, advice="It may run in a container: run the same command in there."))
    return pid


def _has_open(pid: int, path: Path) -> bool:
    try:
        return any(os.path.realpath(file.path) == os.path.realpath(path) for file in psutil.Process(pid).open_files())
    except psutil.AccessDenied:
        return True  # another user's: the signal will say so
    except psutil.NoSuchProcess:
        return False
