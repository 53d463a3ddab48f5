"""How far a run is: trials done, running and failed per arm, what they use, and how long the rest may take."""

from __future__ import annotations

import socket
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from ablate.design.cross import cells
from ablate.design.spec import GridSpec
from ablate.record.flock import wait_until_free
from ablate.record.journal import read_identity, rows_written
from ablate.record.lock import holder, is_held
from ablate.record.reader import Run
from ablate.record.remote_run import look


@dataclass(frozen=True)
class Running:
    """A trial whose process is alive.

    Attributes:
        trial_id: its id.
        arm: its arm.
        batches: rows it has acknowledged.
        seconds: since it began to record.
        cpu_share: processor seconds per second of its process; None if it runs on another machine.
        gpu_share: share of the last sample period in which it kept a GPU busy; None if the driver does not say.
        gpu_memory_bytes: GPU memory that its process holds; None if the driver does not say.
    """

    trial_id: str
    arm: str
    batches: int
    seconds: float
    cpu_share: float | None
    gpu_share: float | None = None
    gpu_memory_bytes: int | None = None


@dataclass(frozen=True)
class ArmStatus:
    """One arm of a run.

    Attributes:
        arm: its name.
        planned: its trials in the grid.
        done: complete ones, diverged ones included.
        diverged: those whose loss was not finite.
        failed: those whose last attempt failed.
        running: those in progress.
        s_per_batch: wall seconds a batch, over complete trials; None before the first.
        cpu_share: processor seconds per wall second, over complete and running trials; None before the first.
        threads: most threads of one trial that used the processor; None before the first is complete.
        device: where it computes, by the grid.
        gpu_share: share of the time that a trial kept a GPU busy, over complete and running trials; None where the
            driver did not tell it by trial, and on a CPU arm.
        gpu_memory_bytes: most GPU memory that a running trial's process holds; None where the driver does not say.
    """

    arm: str
    planned: int
    done: int
    diverged: int
    failed: int
    running: int
    s_per_batch: float | None
    cpu_share: float | None
    threads: int | None
    device: str = "cpu"
    gpu_share: float | None = None
    gpu_memory_bytes: int | None = None


@dataclass(frozen=True)
class RunStatus:
    """A whole run.

    Attributes:
        study: its name.
        question: what it asks.
        writer: who is writing the store; empty if nobody is.
        arms: one entry per arm.
        batches: acknowledged in complete and running trials.
        batches_in_all: planned.
        left_s: estimate of the seconds left at the present rate; None if nothing runs or nothing can be said.
        changed: when the store was last written, seconds since the epoch.
        gpu_note: why an arm's GPU use is not known; empty if it is, or if no arm computes on one.
    """

    study: str
    question: str
    writer: str
    arms: tuple[ArmStatus, ...]
    batches: int
    batches_in_all: int
    left_s: float | None
    changed: float
    gpu_note: str = ""

    def total(self, name: str) -> int:
        """Return the sum over arms of ``planned``, ``done``, ``failed`` or ``running``."""
        return sum(getattr(arm, name) for arm in self.arms)


GPU_NOT_TOLD = (
    "GPU use is not known trial by trial in {arms}: the driver cannot tell it here (in a container it counts processes "
    "by other numbers; for part of a GPU it has no figure; on another machine, ask there)"
)

GpuUse = tuple[float | None, int | None]
"""What a process uses of GPUs: the busy share of the last sample period, and bytes."""


def run_status(run: Run, gpu: Mapping[int, GpuUse] | None = None) -> RunStatus:
    """Look at a run, while it is written or after.

    Args:
        run: the run.
        gpu: what each process of this machine uses of its GPUs, by its number; None if that is not known.

    Raises:
        StoreError: if the store cannot be read.
    """
    writer = look(run.uri, run.paths) if run.uri else holder(run.paths.lock) if is_held(run.paths.lock) else ""
    names = ("arm", "status", "batches", "wall_s", "cpu_s", "threads_used", "gpu_busy")
    recorded = run.trials()
    rows = recorded.select([name for name in names if name in recorded.column_names]).to_pylist()  # GPU use came later
    count = _planned(run.grid)
    running = [] if run.uri and not writer else _running(run, gpu or {})
    arms = tuple(
        _arm(name, arm.numerics.device, count[name], [row for row in rows if row["arm"] == name], running)
        for name, arm in run.grid.arms.items()
    )
    done = sum(row["batches"] for row in rows if row["status"] != "failed")
    in_all = count.total() * run.grid.batches
    rate = sum(one.batches / one.seconds for one in running if one.seconds > 0)
    batches = done + sum(one.batches for one in running)
    left = (in_all - batches) / rate if rate else None
    files = (run.paths.spec_json, run.paths.trials, run.paths.batches, run.paths.journal)
    changed = max(path.stat().st_mtime for path in files if path.exists())
    silent = [arm.arm for arm in arms if arm.device == "cuda" and arm.gpu_share is None and (arm.done or arm.running)]
    note = GPU_NOT_TOLD.format(arms=", ".join(silent)) if silent else ""
    return RunStatus(run.grid.study, run.grid.question, writer, arms, batches, in_all, left, changed, note)


def _planned(grid: GridSpec) -> Counter[str]:
    """Count the trials of each arm without making them: in a large study that takes longest."""
    count: Counter[str] = Counter()
    for arm, _ in cells(grid):
        count[arm] += len(set(grid.arms[arm].blocks) & set(grid.blocks))
    return count


def _arm(
    arm: str, device: str, planned: int, rows: Sequence[Mapping[str, Any]], running: Sequence[Running]
) -> ArmStatus:
    complete = [row for row in rows if row["status"] != "failed"]
    timed = [row for row in complete if row["wall_s"] and row["batches"]]
    here = [one for one in running if one.arm == arm]
    shares = [row["cpu_s"] / row["wall_s"] for row in timed]
    shares += [one.cpu_share for one in here if one.cpu_share is not None]
    threads = [row["threads_used"] for row in complete if row["threads_used"] is not None]
    told = [*(row.get("gpu_busy") for row in complete), *(one.gpu_share for one in here)]
    busy = [share for share in told if share is not None]
    return ArmStatus(
        arm=arm,
        planned=planned,
        done=len(complete),
        diverged=sum(row["status"] == "diverged" for row in complete),
        failed=len(rows) - len(complete),
        running=len(here),
        s_per_batch=sum(row["wall_s"] for row in timed) / sum(row["batches"] for row in timed) if timed else None,
        cpu_share=sum(shares) / len(shares) if shares else None,
        threads=max(threads, default=None),
        device=device,
        gpu_share=sum(busy) / len(busy) if busy else None,
        gpu_memory_bytes=max((one.gpu_memory_bytes for one in here if one.gpu_memory_bytes is not None), default=None),
    )


def _running(run: Run, gpu: Mapping[int, GpuUse]) -> list[Running]:
    found = []
    for trial_id, attempt in run.paths.journal_attempts():
        rows = run.paths.rows(trial_id, attempt)
        if run.paths.trial_json(trial_id, attempt).exists() or (run.uri is None and wait_until_free(str(rows), 0.0)):
            continue  # over, or its process is gone
        identity = read_identity(rows)
        if identity:
            found.append(_alive(rows, trial_id, identity, gpu))
    return found


def _alive(rows: Path, trial_id: str, identity: Mapping[str, Any], gpu: Mapping[int, GpuUse]) -> Running:
    seconds, share = 0.0, None
    busy, memory = None, None
    if identity.get("host", socket.gethostname()) == socket.gethostname():  # elsewhere the number is another process's
        try:
            process = psutil.Process(identity["pid"])
            seconds = time.time() - process.create_time()
            used = process.cpu_times()
            share = (used.user + used.system) / seconds if seconds > 0 else None
        except psutil.Error:
            pass
        busy, memory = gpu.get(identity["pid"], (None, None))
    return Running(trial_id, identity["arm"], rows_written(rows) or 0, seconds, share, busy, memory)
