"""How far a run is: trials done, running and failed per arm, what they use, and how long the rest may take."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from ablate.design.cross import trials
from ablate.record.flock import wait_until_free
from ablate.record.journal import read_identity, rows_written
from ablate.record.lock import holder, is_held
from ablate.record.reader import Run


@dataclass(frozen=True)
class Running:
    """A trial whose process is alive.

    Attributes:
        trial_id: its id.
        arm: its arm.
        batches: rows it has acknowledged.
        seconds: since it began to record.
        cpu_share: processor seconds per second of its process; None if it runs on another machine.
    """

    trial_id: str
    arm: str
    batches: int
    seconds: float
    cpu_share: float | None


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
    """

    study: str
    question: str
    writer: str
    arms: tuple[ArmStatus, ...]
    batches: int
    batches_in_all: int
    left_s: float | None
    changed: float

    def total(self, name: str) -> int:
        """Return the sum over arms of ``planned``, ``done``, ``failed`` or ``running``."""
        return sum(getattr(arm, name) for arm in self.arms)


def run_status(run: Run) -> RunStatus:
    """Look at a run, while it is written or after.

    Raises:
        StoreError: if the store cannot be read.
    """
    names = ("arm", "status", "batches", "wall_s", "cpu_s", "threads_used")
    rows = run.trials().select(names).to_pylist()
    planned = trials(run.grid)
    running = _running(run)
    arms = tuple(
        _arm(arm, sum(spec.arm == arm for spec in planned), [row for row in rows if row["arm"] == arm], running)
        for arm in run.grid.arms
    )
    done = sum(row["batches"] for row in rows if row["status"] != "failed")
    in_all = len(planned) * run.grid.batches
    rate = sum(one.batches / one.seconds for one in running if one.seconds > 0)
    batches = done + sum(one.batches for one in running)
    left = (in_all - batches) / rate if rate else None
    writer = holder(run.paths.lock) if is_held(run.paths.lock) else ""
    files = (run.paths.spec_json, run.paths.trials, run.paths.batches, run.paths.journal)
    changed = max(path.stat().st_mtime for path in files if path.exists())
    return RunStatus(run.grid.study, run.grid.question, writer, arms, batches, in_all, left, changed)


def _arm(arm: str, planned: int, rows: Sequence[Mapping[str, Any]], running: Sequence[Running]) -> ArmStatus:
    complete = [row for row in rows if row["status"] != "failed"]
    timed = [row for row in complete if row["wall_s"] and row["batches"]]
    here = [one for one in running if one.arm == arm]
    shares = [row["cpu_s"] / row["wall_s"] for row in timed]
    shares += [one.cpu_share for one in here if one.cpu_share is not None]
    threads = [row["threads_used"] for row in complete if row["threads_used"] is not None]
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
    )


def _running(run: Run) -> list[Running]:
    found = []
    for trial_id, attempt in run.paths.journal_attempts():
        rows = run.paths.rows(trial_id, attempt)
        if run.paths.trial_json(trial_id, attempt).exists() or wait_until_free(str(rows), 0.0):
            continue  # over, or its process is gone
        identity = read_identity(rows)
        if identity:
            found.append(_alive(rows, trial_id, identity))
    return found


def _alive(rows: Path, trial_id: str, identity: Mapping[str, Any]) -> Running:
    seconds, share = 0.0, None
    try:
        process = psutil.Process(identity["pid"])
        seconds = time.time() - process.create_time()
        if identity.get("host", socket.gethostname()) == socket.gethostname() and seconds > 0:
            used = process.cpu_times()
            share = (used.user + used.system) / seconds
    except psutil.Error:
        pass
    return Running(trial_id, identity["arm"], rows_written(rows) or 0, seconds, share)
