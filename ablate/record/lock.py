"""One writer per store: a lock file that says who holds it and is free again as soon as that process is gone."""

from __future__ import annotations

import json
import os
import shutil
import socket
import time
from datetime import UTC, datetime
from pathlib import Path

from ablate.errors import Problem, StoreError
from ablate.record.disk import store_io
from ablate.record.flock import release, try_lock, wait_until_free
from ablate.record.paths import StorePaths

_PATIENCE_S = 0.5
"""A reader that asks whether a store is being written holds a shared lock for microseconds: outlast it."""


class StoreLock:
    """Exclusive right to write one store. The file stays behind, empty, when it is released."""

    def __init__(self, path: Path) -> None:
        """Take the lock.

        Raises:
            StoreError: if another process holds it, or the file cannot be written.
        """
        with store_io(path):
            self._fd: int | None = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        deadline = time.monotonic() + _PATIENCE_S
        while not try_lock(self._fd):
            if time.monotonic() >= deadline:
                os.close(self._fd)
                raise StoreError(
                    Problem(
                        where=str(path),
                        found=f"the store is being written by {holder(path)}",
                        advice="wait until that launch is over, or stop it, then run the same command again",
                    )
                )
            time.sleep(0.02)
        self._pid = os.getpid()
        content = {"pid": self._pid, "host": socket.gethostname(), "since": datetime.now(UTC).isoformat()}
        with store_io(path):
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, json.dumps(content).encode(), 0)

    def release(self) -> None:
        """Give the lock back; a second call, or one in a forked child, does nothing."""
        if self._fd is not None and self._pid == os.getpid():
            os.ftruncate(self._fd, 0)
            release(self._fd)
            self._fd = None


def clear_store(paths: StorePaths) -> None:
    """Delete a store, if there is one, unless it is being written.

    Raises:
        StoreError: another process writes it.
    """
    if paths.spec_json.exists():
        StoreLock(paths.lock).release()
        shutil.rmtree(paths.root)


def holder(path: Path) -> str:
    """Say in words who holds the lock at ``path``."""
    try:
        content = json.loads(path.read_text())
        return f"process {content['pid']} on {content['host']} since {content['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"


def is_held(path: Path) -> bool:
    """Say whether a process holds the lock at ``path`` right now."""
    return not wait_until_free(str(path), 0.0)
