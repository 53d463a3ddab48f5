"""Commands that look at a store or at this machine, and run nothing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ablate.cli_arguments import Json, Run, Runs
from ablate.terminal import emit, make_console, say

if TYPE_CHECKING:
    from ablate.launch.detach import Followed

Jobs = Annotated[
    str | None,
    typer.Option("--address", help="Of the cluster that a launch was submitted to, such as http://HEAD:8265."),
]


def check(run: Run, as_json: Json = False) -> None:
    """Check a run's files: every row once, no gap, pairing intact, attempts that overlap equal bit for bit."""
    from dataclasses import asdict

    from ablate.errors import Problem, StoreError
    from ablate.record.check import CODES
    from ablate.record.check import check as check_run
    from ablate.record.reader import Run as OpenRun

    findings = check_run(OpenRun(run))
    errors = [finding for finding in findings if finding.severity == "error"]
    if as_json:
        emit([asdict(finding) for finding in findings], True, None)
    else:
        summary = f"{len(errors)} errors, {len(findings) - len(errors)} notes"
        say(*map(str, findings), f"{summary}; looked for: {', '.join(CODES.values())}")
    if errors:
        raise StoreError(Problem(run, f"{len(errors)} integrity errors, listed above"))


def status(run: Run, address: Jobs = None, as_json: Json = False) -> None:
    """Show how far a run is, per arm; on a terminal, until its launch ends."""
    if address:
        from ablate.launch.detach import follow

        _print_followed(follow(run, address), as_json)
        return
    import time
    from dataclasses import asdict

    from ablate.record.reader import Run as OpenRun
    from ablate.record.status import run_status
    from ablate.record.status_table import status_table
    from ablate.trial.gpu_use import processes
    from ablate.trial.nvml import gpu_load

    opened = OpenRun(run)
    now, console = run_status(opened, processes()), make_console()
    if console.is_terminal and now.writer and not as_json:
        from rich.live import Live

        with Live(status_table(now, gpu_load()), console=console) as live:
            while now.writer:
                time.sleep(10 if opened.uri else 1)  # rows are uploaded every 10 s
                live.update(status_table(now := run_status(opened, processes()), gpu_load()))
        return
    loads = gpu_load()
    gpus = [{"name": name, "busy_percent": percent} for name, percent in loads]
    emit({**asdict(now), "gpus": gpus}, as_json, lambda console: console.print(status_table(now, loads)))


def stop(run: Run, address: Jobs = None, as_json: Json = False) -> None:
    """End a run's launch as Ctrl-C would, wait for it, and say what is kept."""
    from dataclasses import asdict

    from ablate.exit_codes import KEPT
    from ablate.launch.stop import stop as stop_here
    from ablate.record.reader import Run as OpenRun
    from ablate.record.remote_run import launch_lock
    from ablate.record.status import run_status

    if address:
        from ablate.launch.detach import stop as stop_there

        _print_followed(stop_there(run, address), as_json)
        return
    opened = OpenRun(run)
    who = stop_here(launch_lock(opened))
    left = run_status(opened)
    if as_json:
        emit({"stopped": who, **asdict(left)}, True, None)
        return
    done, planned = left.total("done"), left.total("planned")
    say(f"ended: {who}" if who else "no launch writes this run; nothing to stop")
    say(f"{done} of {planned} trials are done" + ("" if done == planned else f"; {KEPT}"))


def list_runs(runs: Runs = Path("runs"), as_json: Json = False) -> None:
    """List the runs in a folder: how far each is and what it asks."""
    from dataclasses import asdict

    from ablate.errors import BadInput, Problem
    from ablate.record.reader import Run as OpenRun
    from ablate.record.status import run_status
    from ablate.record.status_table import runs_table

    if not runs.is_dir():
        raise BadInput(Problem(str(runs), "is not a folder", advice="name the folder of all runs with --runs"))
    found = [run_status(OpenRun(spec.parent)) for spec in sorted(runs.glob("*/spec.json"))]
    emit([asdict(one) for one in found], as_json, lambda console: console.print(runs_table(found)))


def _print_followed(found: Followed, as_json: bool) -> None:
    from ablate.launch.detach import describe
    from ablate.record.status_table import status_table

    if as_json:
        emit(found.to_json(), True, None)
        return
    say(describe(found.job))
    if found.run:
        table = status_table(found.run)
        emit(None, False, lambda console: console.print(table))
    else:
        say(f"its run is not shown: {found.why}")
    say("it printed last:", *(f"    {line}" for line in found.said))


def doctor(
    address: Annotated[
        str | None, typer.Option(envvar="RAY_ADDRESS", help="Look at a Ray cluster's nodes. [default: this machine]")
    ] = None,
    grid: Annotated[
        Path | None, typer.Option("--grid", help="The study that is to run there: its arms may ask about versions.")
    ] = None,
    runs: Runs = Path("runs"),
    as_json: Json = False,
) -> None:
    """Say what this machine or each node of a cluster offers, and what would bias a study run there."""
    if address:
        _doctor_of_cluster(address, grid, as_json)
        return
    from dataclasses import asdict

    from ablate.launch.doctor import diagnose

    found = diagnose(os.environ, runs if runs.exists() else Path("."))
    if as_json:
        emit(asdict(found), True, None)
        return
    width = max(map(len, found.facts))
    say(*(f"{name:{width}}  {value}" for name, value in found.facts.items()), "")
    say(*(map(str, found.concerns) if found.concerns else ["nothing here would bias a study"]))


def _doctor_of_cluster(address: str, grid: Path | None, as_json: bool) -> None:
    from ablate.design.grid import load_grid
    from ablate.errors import UnmetPlacement
    from ablate.launch.cluster_doctor import ask, doctor_table, problems, to_json
    from ablate.launch.placement import each

    known = load_grid(grid).arms if grid else {}
    arms = {name: each(arm.resources, arm.numerics.workers) for name, arm in known.items()} or None
    nodes = ask(address)
    found = problems(nodes, arms, address)
    emit(to_json(nodes, found), as_json, lambda console: console.print(doctor_table(nodes)))
    if found:
        raise UnmetPlacement(*found)
    if not as_json:
        say("no version differs where it would matter")
