"""The command line: parse, call, print, exit code. Heavy imports wait until a command needs them."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ablate import cli_exchange, cli_guard
from ablate.exit_codes import exit_code
from ablate.terminal import emit, make_console, say

if TYPE_CHECKING:
    from rich.console import Console

app = typer.Typer(
    help="Does training still come out the same after you changed the machine, a flag or a version? "
    "Noise, precision, set-up or bug, with evidence.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Grid = Annotated[Path, typer.Argument(help="The grid file.", show_default=False)]
Run = Annotated[str, typer.Argument(help="A run's folder, or a study's name under ./runs.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
Runs = Annotated[Path, typer.Option("--runs", help="Folder of all runs.")]


@app.command()
def init(folder: Annotated[Path, typer.Argument(help="Where to write.")] = Path(".")) -> None:
    """Write grid.yaml and a small trainable of your own, ready to launch."""
    from ablate.design.starter import write_starter

    grid = "grid.yaml" if folder == Path(".") else folder / "grid.yaml"
    say(*(f"wrote {path}" for path in write_starter(folder)), f"next: ablate launch {grid}")


@app.command()
def plan(
    grid: Grid,
    run: Annotated[
        str | None, typer.Option("--from", metavar="RUN", help="Take time and spread from this past run.")
    ] = None,
    measure: Annotated[bool, typer.Option("--measure", help="Time one short trial; it is not recorded.")] = False,
    as_json: Json = False,
) -> None:
    """Show what a launch would run: trials, arms, resources, what the tests can reach, time and power. Runs nothing."""
    from ablate.design.forecast_table import render_forecast
    from ablate.design.plan import plan as make_plan
    from ablate.design.plan_table import render
    from ablate.forecasting import forecast
    from ablate.launch.placement import available_cores
    from ablate.launch.study import read_study

    study = read_study(grid)
    made = make_plan(study.grid, available_cores())
    expected = forecast(study, made, run, measure)

    def both(console: Console) -> None:
        render(made, console)
        render_forecast(expected, console)

    content = {**made.model_dump(mode="json"), "forecast": expected.model_dump(mode="json")}
    emit(content, as_json, both)


@app.command()
def schema() -> None:
    """Print the JSON Schema of grid files, for editors: `ablate schema > grid.schema.json`."""
    from ablate.design.schema import grid_schema

    emit(grid_schema(), True, None)


@app.command()
def launch(
    grid: Grid,
    local: Annotated[bool, typer.Option("--local", help="Run on this machine without Ray.")] = False,
    address: Annotated[
        str | None, typer.Option(envvar="RAY_ADDRESS", help="A Ray cluster. [default: an embedded local Ray]")
    ] = None,
    offer: Annotated[
        list[str] | None,
        typer.Option("--offer", metavar="TAG[=N]", help="This machine offers a resource that arms ask for."),
    ] = None,
    runs: Runs = Path("runs"),
    allow_mixed_code: Annotated[
        bool, typer.Option("--allow-mixed-code", help="Continue a study although its code or torch changed.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run a study, or what is left of it, then print the gap table. Run it again to resume."""
    from ablate.errors import TrialsFailed
    from ablate.launch.failures import problems
    from ablate.launch.study import launch as run_study
    from ablate.launch.study import new_launcher, read_study

    study = read_study(grid)
    root = runs / study.grid.study
    launcher = new_launcher(local, address, offer or ())
    launched = run_study(study, launcher, root, make_console(stderr=True), allow_mixed_code)
    _print_gap(str(root), as_json)
    name = shlex.quote(str(root))
    typer.echo(
        f"stored in {root}; to print this again: ablate gap {name}; with all evidence: ablate verdict {name}", err=True
    )
    if launched.failed:
        alone = shlex.join(["ablate", "trial", str(grid), *(["--runs", str(runs)] if runs != Path("runs") else [])])
        raise TrialsFailed(*problems(launched.failed, launched.ran, str(root), alone))


@app.command()
def trial(
    grid: Grid,
    trial_id: Annotated[
        str, typer.Argument(help="ARM/BLOCK, or the trial's id from `ablate plan --json`.", show_default=False)
    ],
    runs: Runs = Path("runs"),
) -> None:
    """Run one trial in this process, without Ray: to see its output, or to debug it."""
    from ablate.launch.alone import run_alone
    from ablate.record.reader import Run as OpenRun

    root = run_alone(grid, trial_id, runs)
    losses = OpenRun(root).batches(["loss"])["loss"].to_pylist()
    say(
        f"{len(losses)} batches, loss {losses[0]:.6g} at the first, {losses[-1]:.6g} at the last", f"recorded in {root}"
    )


@app.command()
def audit(
    grid: Grid,
    save: Annotated[
        Path | None, typer.Option("--save", metavar="FILE", help="Keep inputs and values, to compare with elsewhere.")
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option("--against", metavar="FILE", help="Run on a file's inputs and compare with its values."),
    ] = None,
    runs: Runs = Path("runs"),
    as_json: Json = False,
) -> None:
    """Hold the first batches of every arm against float64; exit code 5 on BUG or CONFOUNDED."""
    from ablate.launch.audit_command import run_audit

    raise typer.Exit(run_audit(grid, runs, save, against, as_json))


@app.command()
def gap(run: Run, as_json: Json = False) -> None:
    """Compare a run's arms: outcomes, paired gaps with intervals, and the verdict as far as the evidence goes."""
    _print_gap(run, as_json)


@app.command()
def verdict(
    run: Run,
    fail_on: Annotated[
        str | None,
        typer.Option("--fail-on", metavar="WORD,...", help="Exit with 5 at these verdicts, such as bug,confounded."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Say what explains each difference, with all evidence, what would change it, and words for an appendix."""
    from ablate.record.reader import Run as OpenRun
    from analysis.fail_on import fail_on as fail
    from analysis.fail_on import wanted
    from analysis.verdict import verdict as compute
    from analysis.verdict_text import print_verdict

    words = wanted(fail_on) if fail_on is not None else frozenset()
    found = compute(OpenRun(run))
    emit(found.to_json(), as_json, lambda console: print_verdict(found, console))
    fail(found, words)


app.command()(cli_exchange.report)
app.command("import")(cli_exchange.import_run)
app.command()(cli_exchange.export)


@app.command()
def show(
    run: Run,
    batch: Annotated[int | None, typer.Option(help="Which batch. [default: the last that every arm has]")] = None,
    block: Annotated[int | None, typer.Option(help="Which block. [default: the first with the most arms]")] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The PNG file. [default: in the run's folder, under pictures/]"),
    ] = None,
) -> None:
    """Draw what every arm makes of identical inputs, side by side, if the grid asked for artifacts."""
    from ablate.record.reader import Run as OpenRun
    from analysis.show import write_show

    say(f"wrote {write_show(OpenRun(run), batch, block, output)}")


@app.command()
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


@app.command()
def status(run: Run, as_json: Json = False) -> None:
    """Show how far a run is, per arm; on a terminal, until its launch ends."""
    import time
    from dataclasses import asdict

    from ablate.record.reader import Run as OpenRun
    from ablate.record.status import run_status
    from ablate.record.status_table import status_table
    from ablate.trial.nvml import gpu_load

    opened = OpenRun(run)
    now, console = run_status(opened), make_console()
    if console.is_terminal and now.writer and not as_json:
        from rich.live import Live

        with Live(status_table(now, gpu_load()), console=console) as live:
            while now.writer:
                time.sleep(1)
                live.update(status_table(now := run_status(opened), gpu_load()))
        return
    emit(asdict(now), as_json, lambda console: console.print(status_table(now, gpu_load())))


app.command(context_settings=cli_guard.SETTINGS)(cli_guard.guard)


@app.command("runs")
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


@app.command()
def doctor(runs: Runs = Path("runs"), as_json: Json = False) -> None:
    """Say what this machine offers, and what would bias a study run on it."""
    from dataclasses import asdict

    from ablate.launch.doctor import diagnose

    found = diagnose(os.environ, runs if runs.exists() else Path("."))
    if as_json:
        emit(asdict(found), True, None)
        return
    width = max(map(len, found.facts))
    say(*(f"{name:{width}}  {value}" for name, value in found.facts.items()), "")
    say(*(map(str, found.concerns) if found.concerns else ["nothing here would bias a study"]))


def _print_gap(run: str, as_json: bool) -> None:
    from ablate.record.reader import Run as OpenRun
    from analysis.gap import gap as compute
    from analysis.gap_table import print_gap

    report = compute(OpenRun(run))
    emit(report.to_json(), as_json, lambda console: print_gap(report, console))


def main() -> None:
    """Run the command line; exit codes say how the execution went, never what the verdict is (README, exit codes)."""
    try:
        code = app(standalone_mode=False)
        if code == 130:  # typer turned a KeyboardInterrupt into a return value
            raise KeyboardInterrupt
    except BaseException as error:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a further Ctrl-C would kill what is ending anyway: -2, not 130
        code = exit_code(error)
    sys.exit(code)
