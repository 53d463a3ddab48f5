"""Locks that the kernel releases when their holder dies, however it died."""

from __future__ import annotations

import fcntl
import os
import time

_held: set[int] = set()


def try_lock(fd: int) -> bool:
    """Take the exclusive lock on an open file; say whether it was free. ``release`` gives it back."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    _held.add(fd)
    return True


def lock(fd: int) -> None:
    """Take the exclusive lock on an open file, waiting for whoever has it."""
    fcntl.flock(fd, fcntl.LOCK_EX)
    _held.add(fd)


def release(fd: int) -> None:
    """Close the file and with it give the lock back."""
    _held.discard(fd)
    os.close(fd)


def wait_until_free(path: str, timeout_s: float) -> bool:
    """Wait until nobody holds the lock on ``path``; say whether that came to pass in time. A missing file is free."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return True
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
        else:
            return True
        finally:
            os.close(fd)
        time.sleep(0.02)


def _forget_in_child() -> None:
    # A forked child shares its parent's open files, and with them the lock: it would keep it after the parent's death.
    for fd in _held:
        os.close(fd)
    _held.clear()


os.register_at_fork(after_in_child=_forget_in_child)
