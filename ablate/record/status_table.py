"""Prints how far runs are, for people."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ablate.record.status import ArmStatus, RunStatus


def status_table(status: RunStatus, gpus: Sequence[tuple[str, int]] = ()) -> RenderableType:
    """Return one run's arms as a table under a line that sums them up.

    Args:
        status: the run.
        gpus: name and percent busy of this machine's GPUs.
    """
    share = 100 * status.batches / max(1, status.batches_in_all)
    head = f"{status.study}: {status.total('done')} of {status.total('planned')} trials done"
    if running := status.total("running"):
        head += f", {running} running"
    if failed := status.total("failed"):
        head += f", {failed} failed"
    head += f"; {share:.0f} % of batches"
    if status.left_s is not None:
        head += f"; {time_left(status.left_s)}"
    on_gpu = any(arm.device == "cuda" for arm in status.arms)
    gpu_columns = ("GPU", "GPU MiB") if on_gpu else ()
    table = _table("arm", "done", "running", "failed", "diverged", "ms/batch", "CPU", "threads", *gpu_columns)
    for arm in status.arms:
        table.add_row(*_row(arm), *(_gpu(arm) if on_gpu else ()))
    lines: list[RenderableType] = [Text(head, style="bold"), Text(status.question), table]
    writer = (
        f"being written by {status.writer}"
        if status.writer
        else f"not being written; last change {ago(status.changed)}"
    )
    return Group(
        *lines,
        Text(writer),
        Text("CPU: processor seconds per second of one trial, 1 is one busy core; threads: how many used it."),
        *([Text("GPU: share of the time that a trial ran kernels on one; MiB: what one holds now.")] if on_gpu else []),
        *([Text(status.gpu_note)] if status.gpu_note else []),
        *(Text(f"GPU: {name}, {percent} % busy now, on this machine") for name, percent in gpus),
    )


def runs_table(statuses: Sequence[RunStatus]) -> RenderableType:
    """Return one line per run, the last changed first."""
    table = _table("run", "trials", "failed", "state", "last change", "question", left=(0, 3, 4, 5))
    for status in sorted(statuses, key=lambda status: -status.changed):
        complete = status.total("done") == status.total("planned")
        state = "running" if status.writer else "complete" if complete else "incomplete"
        trials = f"{status.total('done')}/{status.total('planned')}"
        row = (status.study, trials, str(status.total("failed")), state, ago(status.changed), status.question)
        table.add_row(*map(Text, row))
    return table


def time_left(seconds: float) -> str:
    """Return an estimate in words."""
    if seconds < 90:
        return f"about {max(1, round(seconds))} s left"
    return f"about {round(seconds / 60)} min left" if seconds < 5400 else f"about {seconds / 3600:.1f} h left"


def ago(moment: float) -> str:
    """Return in words how long ago ``moment``, seconds since the epoch, was."""
    seconds = max(0.0, time.time() - moment)
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit} ago"
    return f"{seconds:.0f} s ago"


def _row(arm: ArmStatus) -> list[Text]:
    return [
        Text(arm.arm),
        Text(f"{arm.done}/{arm.planned}"),
        Text(str(arm.running)),
        Text(str(arm.failed)),
        Text(str(arm.diverged)),
        Text("-" if arm.s_per_batch is None else f"{1000 * arm.s_per_batch:.3g}"),
        Text("-" if arm.cpu_share is None else f"{arm.cpu_share:.2f}"),
        Text("-" if arm.threads is None else str(arm.threads)),
    ]


def _gpu(arm: ArmStatus) -> list[Text]:
    return [
        Text("-" if arm.gpu_share is None else f"{arm.gpu_share:.2f}"),
        Text("-" if arm.gpu_memory_bytes is None else f"{arm.gpu_memory_bytes / 2**20:.0f}"),
    ]


def _table(*headings: str, left: tuple[int, ...] = (0,)) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=0)  # 80 columns leave an arm's name room for its own
    for position, heading in enumerate(headings):
        table.add_column(heading, justify="left" if position in left else "right", overflow="fold")
    return table
