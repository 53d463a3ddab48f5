"""NVIDIA's GPUs as the driver's management library (NVML) lists them: no torch, and no CUDA context in this process.

The library comes with the driver. Where it cannot be loaded there is no GPU that CUDA could use either.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

LIBRARY = "libnvidia-ml.so.1"
_TEXT = 96  # NVML's own buffers for names, identifiers and versions are no longer


@dataclass(frozen=True)
class Gpu:
    """A GPU: the identifier that ``CUDA_VISIBLE_DEVICES`` takes, and its name."""

    uuid: str
    name: str


def all_gpus() -> tuple[Gpu, ...]:
    """Return this machine's GPUs in the order of nvidia-smi; empty without a driver."""
    with library() as nvml:
        found = []
        for handle in handles(nvml):
            uuid, name = (_text(call, handle) for call in (nvml.nvmlDeviceGetUUID, nvml.nvmlDeviceGetName))
            if uuid:
                found.append(Gpu(uuid, name))
        return tuple(found)


class _Utilisation(ctypes.Structure):
    """NVML's nvmlUtilization_t: percent of the last sample period (a sixth of a second to a second)."""

    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


def gpu_load() -> tuple[tuple[str, int], ...]:
    """Return (name, percent of the time that a kernel ran) of each GPU that says so; empty without a driver."""
    with library() as nvml:
        loads = []
        for handle in handles(nvml):
            found = _Utilisation()
            if not nvml.nvmlDeviceGetUtilizationRates(handle, ctypes.byref(found)):
                loads.append((_text(nvml.nvmlDeviceGetName, handle), int(found.gpu)))
        return tuple(loads)


def driver_version() -> str:
    """Return the driver's version, such as 580.65.06; empty without one."""
    with library() as nvml:
        return "" if nvml is None else _text(nvml.nvmlSystemGetDriverVersion)


def visible_gpus(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return what a launch on this machine may assign, as entries of ``CUDA_VISIBLE_DEVICES``.

    All GPUs, or those that the launching shell's own ``CUDA_VISIBLE_DEVICES`` leaves (numbers count as nvidia-smi's).
    As CUDA does, an entry that names no GPU ends the list. Parts of a GPU (MIG) are assigned if they are named there.
    """
    gpus = all_gpus()
    if "CUDA_VISIBLE_DEVICES" not in environment or not gpus:
        return tuple(gpu.uuid for gpu in gpus)
    named = []
    for entry in environment["CUDA_VISIBLE_DEVICES"].split(","):
        found = _uuid_of(entry.strip(), gpus)
        if not found or found in named:
            break
        named.append(found)
    return tuple(named)


def _uuid_of(entry: str, gpus: tuple[Gpu, ...]) -> str:
    if entry.startswith("MIG-"):
        return entry
    if entry.isdecimal():
        return gpus[int(entry)].uuid if int(entry) < len(gpus) else ""
    matching = [gpu.uuid for gpu in gpus if entry and gpu.uuid.startswith(entry)]
    return matching[0] if len(matching) == 1 else ""


def handles(nvml: Any) -> Iterator[ctypes.c_void_p]:
    """Yield the driver's handle of each GPU that is open to this process; none for no library."""
    count = ctypes.c_uint(0)
    if nvml is None or nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)):
        return
    for index in range(count.value):
        handle = ctypes.c_void_p()
        if not nvml.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(handle)):
            yield handle  # the others are listed, but closed by a container's device rules


@contextmanager
def library() -> Iterator[Any]:
    """Open the driver's library; None without one."""
    try:
        nvml = ctypes.CDLL(LIBRARY)
    except OSError:
        yield None
        return
    if nvml.nvmlInit_v2():
        yield None
        return
    try:
        yield nvml
    finally:
        nvml.nvmlShutdown()


def _text(call: Any, *arguments: Any) -> str:
    buffer = ctypes.create_string_buffer(_TEXT)
    return "" if call(*arguments, buffer, ctypes.c_uint(_TEXT)) else buffer.value.decode(errors="replace")
