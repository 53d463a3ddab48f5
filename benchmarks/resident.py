"""How much memory this process holds, and how much a call holds at most."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from pathlib import Path


def resident() -> int:
    """Return the process's resident bytes, after what is free was given back."""
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    return _status("VmRSS")


def peak(call: Callable[[], object]) -> int:
    """Return by how many bytes the resident set grew at most while a call ran."""
    before = resident()
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts anew
    found = call()
    high = _status("VmHWM") - before
    del found
    return high


def _status(key: str) -> int:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(key))
    return int(line.split()[1]) * 1024
