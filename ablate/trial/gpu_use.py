"""How much of a GPU each process uses, as the driver (NVML) counts it: the GPU's side of processor seconds.

The driver counts processes by the numbers they have in the machine's own process table. In a container a process goes
by another number, which may even be some other process's there, so nothing is said by process then: see ``processes``.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from ablate.trial import nvml

MACHINES_OWN = "pid:[4026531836]"
"""The process table that the kernel starts with: PROC_PID_INIT_INO of Linux's ``include/linux/proc_ns.h``."""

RECENT_S = 2.0
"""An older sample is none: the driver's sample period is a sixth of a second to a second."""

_TOO_SMALL = 7  # NVML_ERROR_INSUFFICIENT_SIZE
_NOT_AVAILABLE = 2**64 - 1  # NVML_VALUE_NOT_AVAILABLE


class _Process(ctypes.Structure):
    """NVML's nvmlProcessInfo_t, as ``nvmlDeviceGetComputeRunningProcesses_v3`` fills it."""

    _fields_ = [
        ("pid", ctypes.c_uint),
        ("memory", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    ]


class _Sample(ctypes.Structure):
    """NVML's nvmlProcessUtilizationSample_t: percent of a sample period, which ended at ``microseconds``."""

    _fields_ = [
        ("pid", ctypes.c_uint),
        ("microseconds", ctypes.c_ulonglong),
        ("kernels", ctypes.c_uint),
        ("memory", ctypes.c_uint),
        ("encoder", ctypes.c_uint),
        ("decoder", ctypes.c_uint),
    ]


class GpuUse(NamedTuple):
    """What one process uses, over all its GPUs.

    Attributes:
        busy: share of the last sample period in which a kernel of it ran; 1 is one busy GPU. None if no GPU says so.
        memory_bytes: what it holds, its CUDA context included; None if the driver does not say.
    """

    busy: float | None
    memory_bytes: int | None


def processes(namespace: Path = Path("/proc/self/ns/pid")) -> dict[int, GpuUse] | None:
    """Return what each process that computes on a GPU uses, by its number.

    Returns:
        None where the driver's numbers are not this process's (in a container), or without a driver.
    """
    if not _numbers_are_the_machines(namespace):
        return None
    with nvml.library() as library:
        return None if library is None else _processes(library)


class GpuSampler:
    """Samples what this process uses, at most once a second: the driver keeps no total to be read at the end."""

    EVERY_S = 1.0

    def __init__(self) -> None:
        self._open = ExitStack()  # until the process ends: to open the driver's library takes longer than to ask it
        self._library: Any = None
        self._begun = False
        self._next = -self.EVERY_S
        self._seen: list[float] = []

    def sample(self) -> None:
        """Take a sample if it is time."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + self.EVERY_S
        if not self._begun:
            self._begun = True
            if _numbers_are_the_machines(Path("/proc/self/ns/pid")):
                self._library = self._open.enter_context(nvml.library())
        mine = _processes(self._library).get(os.getpid()) if self._library is not None else None
        if mine is not None and mine.busy is not None:
            self._seen.append(mine.busy)

    @property
    def busy(self) -> float | None:
        """Mean over the samples; None without one."""
        return sum(self._seen) / len(self._seen) if self._seen else None


def _numbers_are_the_machines(namespace: Path) -> bool:
    try:
        return os.readlink(namespace) == MACHINES_OWN
    except OSError:  # no Linux, or no /proc
        return False


def _processes(library: Any) -> dict[int, GpuUse]:
    found: dict[int, GpuUse] = {}
    for handle in nvml.handles(library):
        busy = _busy(library, handle)
        for process in _listed(library, handle):
            memory = None if process.memory == _NOT_AVAILABLE else int(process.memory)
            here = GpuUse(None if busy is None else busy.get(process.pid, 0.0), memory)
            found[process.pid] = _sum(found[process.pid], here) if process.pid in found else here
    return found


def _listed(library: Any, handle: ctypes.c_void_p) -> list[_Process]:
    """Return the processes that compute on a GPU; none where the driver is too old to be asked."""
    ask = getattr(library, "nvmlDeviceGetComputeRunningProcesses_v3", None)
    count = ctypes.c_uint(0)
    if ask is None or ask(handle, ctypes.byref(count), None) != _TOO_SMALL:
        return []
    count.value = 2 * count.value + 8  # more may have come meanwhile
    rows = (_Process * count.value)()
    return [] if ask(handle, ctypes.byref(count), rows) else list(rows[: count.value])


def _busy(library: Any, handle: ctypes.c_void_p) -> dict[int, float] | None:
    """Return the share of the last sample period by process; None where the GPU does not tell (a part of one, MIG).

    A process that ran no kernel in the period has no sample.
    """
    ask = getattr(library, "nvmlDeviceGetProcessUtilization", None)
    if ask is None:
        return None
    count, since = ctypes.c_uint(0), ctypes.c_ulonglong(int((time.time() - RECENT_S) * 1e6))
    status = ask(handle, None, ctypes.byref(count), since)
    if status == _TOO_SMALL:
        count.value = 2 * count.value + 8
        rows = (_Sample * count.value)()
        status = ask(handle, rows, ctypes.byref(count), since)
        if not status:
            return {row.pid: row.kernels / 100 for row in _in_order(rows[: count.value], since.value)}
    return {} if status in (0, 6) else None  # 6: NVML_ERROR_NOT_FOUND, no sample since then


def _in_order(rows: list[_Sample], since: int) -> Iterator[_Sample]:
    """Yield the samples that count, the newest last."""
    for row in sorted(rows, key=lambda row: int(row.microseconds)):
        if row.microseconds > since and row.kernels <= 100:
            yield row


def _sum(one: GpuUse, two: GpuUse) -> GpuUse:
    def total(a: Any, b: Any) -> Any:
        return b if a is None else a if b is None else a + b

    return GpuUse(total(one.busy, two.busy), total(one.memory_bytes, two.memory_bytes))
