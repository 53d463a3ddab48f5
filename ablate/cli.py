"""The command line: parse, call, print, exit code. Heavy imports wait until a command needs them."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from ablate.design.forecast import ContrastPower, Forecast
    from ablate.design.plan import Plan
    from ablate.launch.study import Study

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
    _say(*(f"wrote {path}" for path in write_starter(folder)), f"next: ablate launch {grid}")


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
    from ablate.launch.placement import available_cores
    from ablate.launch.study import read_study

    study = read_study(grid)
    made = make_plan(study.grid, available_cores())
    forecast = _forecast(study, made, run, measure)

    def both(console: Console) -> None:
        render(made, console)
        render_forecast(forecast, console)

    content = {**made.model_dump(mode="json"), "forecast": forecast.model_dump(mode="json")}
    _show(content, as_json, both)


@app.command()
def schema() -> None:
    """Print the JSON Schema of grid files, for editors: `ablate schema > grid.schema.json`."""
    from ablate.design.schema import grid_schema

    _show(grid_schema(), True, None)


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
    launched = run_study(study, launcher, root, _console(stderr=True), allow_mixed_code)
    _print_gap(str(root), as_json)
    typer.echo(f"stored in {root}; to print this again: ablate gap {shlex.quote(str(root))}", err=True)
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
    _say(
        f"{len(losses)} batches, loss {losses[0]:.6g} at the first, {losses[-1]:.6g} at the last", f"recorded in {root}"
    )


@app.command()
def gap(run: Run, as_json: Json = False) -> None:
    """Compare a run's arms: outcomes, paired gaps with intervals, and the verdict as far as the evidence goes."""
    _print_gap(run, as_json)


@app.command()
def report(
    run: Run,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The page. [default: report.html in the run's folder]")
    ] = None,
) -> None:
    """Write one HTML page about a run: the verdict and its evidence, figures, methods, provenance."""
    from ablate.record.reader import Run as OpenRun
    from analysis.report import write_report
    from analysis.report_progress import progress

    opened = OpenRun(run)
    page = output or opened.paths.report
    with progress(_console(stderr=True)) as told:
        write_report(opened, page, told)
    _say(f"wrote {page}")


@app.command("import")
def import_run(
    path: Annotated[
        Path, typer.Argument(help="A CSV of losses, or a Ray Tune experiment's folder.", show_default=False)
    ],
    study: Annotated[str, typer.Option("--study", help="Name of the new study.", show_default=False)],
    arm: Annotated[
        str | None, typer.Option("--arm", metavar="NAME", help="Column or parameter that is compared. [default: arm]")
    ] = None,
    block: Annotated[
        str | None, typer.Option("--block", metavar="NAME", help="The seed's. [default: block, else seed]")
    ] = None,
    step: Annotated[
        str | None, typer.Option("--step", metavar="NAME", help="The batch's. [default: batch_index, else step, ...]")
    ] = None,
    loss: Annotated[str | None, typer.Option("--loss", metavar="NAME", help="The loss's. [default: loss]")] = None,
    factor: Annotated[
        list[str] | None,
        typer.Option("--factor", metavar="NAME", help="A further column that varies; repeatable."),
    ] = None,
    reference: Annotated[
        str | None, typer.Option(metavar="ARM", help="What the others are compared with. [default: the first]")
    ] = None,
    last: Annotated[int, typer.Option("--last", min=1, help="Batches that the outcome averages.")] = 50,
    question: Annotated[str, typer.Option("--question", help="What the study asks.")] = "Do the arms train alike?",
    runs: Runs = Path("runs"),
) -> None:
    """Make a study of runs that ablate did not launch, so that `gap` and `report` read them."""
    from ablate.record.foreign.bring_in import bring_in
    from ablate.record.foreign.trial import Names

    names = Names(arm, block, step, loss, tuple(factor or ()))
    command = shlex.join(["ablate", *sys.argv[1:]])
    found = bring_in(path, study, runs, names, question, reference, last, command)
    _say(f"wrote {found.root}: {found.trials} trials, {found.rows} batches")
    if found.ended_early:
        _say(f"{found.ended_early} trials end before the longest one and have no outcome")
    _say("imported: initial weights, data and draws were not recorded", f"next: ablate gap {found.root}")


@app.command()
def export(
    run: Run,
    to: Annotated[str, typer.Option("--to", help="csv, or wandb: an offline run for each trial.")] = "csv",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A new folder. [default: STUDY-csv or STUDY-wandb, here]")
    ] = None,
) -> None:
    """Write a run's data for other tools, every bit of it, and read it back before saying so."""
    from ablate.record.reader import Run as OpenRun
    from analysis.export import export as export_run

    opened = OpenRun(run)
    folder = output or Path(f"{opened.grid.study}-{to}")
    rows = export_run(opened, to, folder)
    counts = ", ".join(f"{count:,} {name}" for name, count in rows.items())
    _say(f"wrote {folder}: rows {counts}; read back, equal bit for bit")


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

    _say(f"wrote {write_show(OpenRun(run), batch, block, output)}")


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
        _show([asdict(finding) for finding in findings], True, None)
    else:
        summary = f"{len(errors)} errors, {len(findings) - len(errors)} notes"
        _say(*map(str, findings), f"{summary}; looked for: {', '.join(CODES.values())}")
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
    now, console = run_status(opened), _console()
    if console.is_terminal and now.writer and not as_json:
        from rich.live import Live

        with Live(status_table(now, gpu_load()), console=console) as live:
            while now.writer:
                time.sleep(1)
                live.update(status_table(now := run_status(opened), gpu_load()))
        return
    _show(asdict(now), as_json, lambda console: console.print(status_table(now, gpu_load())))


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
    _show([asdict(one) for one in found], as_json, lambda console: console.print(runs_table(found)))


@app.command()
def doctor(runs: Runs = Path("runs"), as_json: Json = False) -> None:
    """Say what this machine offers, and what would bias a study run on it."""
    import os
    from dataclasses import asdict

    from ablate.launch.doctor import diagnose

    found = diagnose(os.environ, runs if runs.exists() else Path("."))
    if as_json:
        _show(asdict(found), True, None)
        return
    width = max(map(len, found.facts))
    _say(*(f"{name:{width}}  {value}" for name, value in found.facts.items()), "")
    _say(*(map(str, found.concerns) if found.concerns else ["nothing here would bias a study"]))


def _forecast(study: Study, made: Plan, run: str | None, measured: bool) -> Forecast:
    from ablate.design.forecast import UNKNOWN, Forecast, forecast_time
    from ablate.design.pace import Paces
    from ablate.launch.placement import this_machine

    if run is None and not measured:
        return Forecast(notes=(UNKNOWN,))
    paces: Paces | None = None
    power: tuple[ContrastPower, ...] = ()
    notes: tuple[str, ...]
    if run is not None:
        from ablate.record.reader import Run as OpenRun
        from ablate.record.timing import timed_trials
        from analysis import power as past

        opened = OpenRun(run)
        paces = Paces(f"as in {opened.paths.root}", timed_trials(opened))
        power, notes = past.power(opened, study.grid, made), past.differences(opened.grid, study.grid)
    else:
        notes = ("power is not known: --from RUN takes the spread between blocks from a past run of this model",)
    if measured:
        from ablate.launch.measure import measure, short_trial

        spec = short_trial(study)
        typer.echo(f"timing {spec.batches} batches of arm {spec.arm}", err=True)
        paces = Paces(f"{spec.batches} batches of arm {spec.arm} timed here", [measure(study, spec)])
    assert paces is not None, "a run or a measurement was asked for"
    return Forecast(time=forecast_time(study.specs, paces, this_machine().resources), power=power, notes=notes)


def _print_gap(run: str, as_json: bool) -> None:
    from ablate.record.reader import Run as OpenRun
    from analysis.gap import gap as compute
    from analysis.gap_table import print_gap

    report = compute(OpenRun(run))
    _show(report.to_json(), as_json, lambda console: print_gap(report, console))


def _show(content: Any, as_json: bool, render: Any) -> None:
    with _reader_may_leave():
        if as_json:
            typer.echo(json.dumps(content, indent=1, allow_nan=False))
        else:
            render(_console())


def _say(*lines: str) -> None:
    with _reader_may_leave():
        for line in lines:
            typer.echo(line)


def _console(stderr: bool = False) -> Console:
    from rich.console import Console

    class Patient(Console):
        def on_broken_pipe(self) -> None:  # rich would end the launch
            self.quiet = True

    return Patient(stderr=stderr)


@contextmanager
def _reader_may_leave() -> Iterator[None]:
    """Print to the end although `head` has seen enough: the exit code is about the execution, not about the reader."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())  # what is still buffered goes there at exit


KEPT = "finished trials are kept, the others begin again or at their checkpoint: launch again to resume"

USAGE_ERROR: Any = typer.BadParameter.__mro__[1]
"""click's UsageError, wherever this release of typer keeps click."""


def main() -> None:
    """Run the command line; exit codes say how the execution went, never what the verdict is (README, exit codes)."""
    try:
        code = app(standalone_mode=False)
        if code == 130:  # typer turned a KeyboardInterrupt into a return value
            raise KeyboardInterrupt
    except BaseException as error:
        code = exit_code(error)
    sys.exit(code)


def exit_code(error: BaseException) -> int:
    """Print what a user should read of ``error`` and return the exit code."""
    from ablate.errors import AblateError

    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 1
    if isinstance(error, typer.Exit):
        return error.exit_code
    if isinstance(error, USAGE_ERROR):
        error.show()
        return 2
    if isinstance(error, AblateError):
        typer.echo(f"error: {error}", err=True)
        return error.exit_code
    if isinstance(error, KeyboardInterrupt | typer.Abort):
        typer.echo(f"interrupted; {KEPT}", err=True)
        return 130
    if type(error).__name__ == "Terminated":
        typer.echo(f"terminated; {KEPT}", err=True)
        return 143
    import traceback

    traceback.print_exception(error)
    typer.echo("error: this is a fault of ablate itself; please report it with the lines above", err=True)
    return 1
