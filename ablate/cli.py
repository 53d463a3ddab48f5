"""The command line: parse, call, print, exit code. Heavy imports wait until a command needs them."""

from __future__ import annotations

import shlex
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ablate import cli_audit, cli_exchange, cli_guard, cli_probe, cli_state
from ablate.cli_arguments import Cluster, Grid, Json, Run, Runs, RunsOrUri
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
    cluster: Annotated[
        Path | None,
        typer.Option(
            "--cluster", metavar="FILE", help="Show which nodes a launch on this cluster would take, and when."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show what a launch would run: trials, arms, resources, what the tests can reach, time and power. Runs nothing."""
    from dataclasses import asdict

    from ablate.cluster.config import check_cluster
    from ablate.cluster.node_types import node_types_of
    from ablate.design.forecast_table import render_forecast
    from ablate.design.plan import plan as make_plan
    from ablate.design.plan_table import render
    from ablate.forecasting import forecast
    from ablate.launch.cluster_plan import check_served, cluster_plan
    from ablate.launch.cluster_table import render_cluster
    from ablate.launch.node_types import most_cores
    from ablate.launch.placement import available_cores
    from ablate.launch.study import read_study

    file = check_cluster(cluster) if cluster else None
    types = node_types_of(file) if file else ()
    cores = most_cores(types) or available_cores()
    study = read_study(grid, cores)
    if file:
        check_served(study, types)
    made = make_plan(study.grid, cores, specs=study.specs)
    expected, paces = forecast(study, made, run, measure)
    there = cluster_plan(study, file, types, paces) if file else None

    def both(console: Console) -> None:
        render(made, console)
        render_forecast(expected, console)
        if there:
            render_cluster(there, console)

    content = {**made.model_dump(mode="json"), "forecast": expected.model_dump(mode="json")}
    content |= {"cluster": asdict(there)} if there else {}
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
    detach: Annotated[
        bool, typer.Option("--detach", help="Submit to the cluster at --address (http://HEAD:8265) and return.")
    ] = False,
    cluster: Cluster = None,
    leave_at_once: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Idle nodes that may leave the cluster at a time. [default: all]"),
    ] = None,
    runs: RunsOrUri = "runs",
    allow_mixed_code: Annotated[
        bool, typer.Option("--allow-mixed-code", help="Continue a study although its code or torch changed.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run a study, or what is left of it, then print the gap table. Run it again to resume."""
    from ablate.errors import TrialsFailed
    from ablate.launch.failures import alone, probe_problems, problems
    from ablate.launch.launchers import new_launcher
    from ablate.launch.launching import launch as run_study
    from ablate.launch.node_types import check_cap, most_cores, node_types
    from ablate.launch.study import read_study
    from ablate.remote.location import within

    reached = None if local else address
    types = node_types(cluster, reached)
    check_cap(leave_at_once, reached)
    study = read_study(grid, most_cores(types))
    root = within(runs, study.grid.study)
    if detach:
        from ablate.launch.detach import submit

        refused = {"--local": local, "--offer": bool(offer)}
        say(*submit(study, root, address, allow_mixed_code, cluster, refused, leave_at_once))
        return
    folder = root if isinstance(root, Path) else None
    launcher = new_launcher(local, address, offer or (), study, folder, leave_at_once)
    launched = run_study(study, launcher, root, make_console(stderr=True), allow_mixed_code, types)
    _print_gap(str(launched.root), as_json)
    name = shlex.quote(str(root))
    typer.echo(
        f"stored in {root}; to print this again: ablate gap {name}; with all evidence: ablate verdict {name}", err=True
    )
    probed = launched.probed
    found = probe_problems(probed.failed, probed.trials, str(root)) if probed.failed else []
    if launched.failed:
        here = folder.parent if folder else Path("runs")  # a trial alone is run on this machine
        found += problems(launched.failed, launched.ran, str(root), alone(grid, here), launched.not_run)
    if found:
        raise TrialsFailed(*found)


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


app.command()(cli_audit.audit)
app.command()(cli_probe.probe)


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


@app.command()
def saddle(run: Run, as_json: Json = False) -> None:
    """Say whether some arms get stuck near saddle points that others escape, from the probes of their curvature."""
    from ablate.record.reader import Run as OpenRun
    from analysis.saddle import saddle as compute
    from analysis.saddle_table import print_saddle

    found = compute(OpenRun(run))
    emit(found.to_json(), as_json, lambda console: print_saddle(found, console))


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


app.command()(cli_state.check)
app.command()(cli_state.status)
app.command()(cli_state.stop)
app.command(context_settings=cli_guard.SETTINGS)(cli_guard.guard)
app.command("runs")(cli_state.list_runs)
app.command()(cli_state.doctor)


def _print_gap(run: str, as_json: bool) -> None:
    from ablate.record.reader import Run as OpenRun
    from analysis.gap import gap as compute
    from analysis.gap_table import print_gap

    report = compute(OpenRun(run))
    emit(report.to_json(), as_json, lambda console: print_gap(report, console))


def main() -> None:
    """Run the command line; exit codes are those of the README."""
    try:
        code = app(standalone_mode=False)
        if code == 130:  # typer turned a KeyboardInterrupt into a return value
            raise KeyboardInterrupt
    except BaseException as error:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a further Ctrl-C would kill what is ending anyway: -2, not 130
        code = exit_code(error)
    sys.exit(code)
