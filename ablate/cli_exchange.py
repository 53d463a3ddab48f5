"""Commands that hand a run to others: the page, other tools' data, and runs that were not made here."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from ablate.cli_arguments import Run, Runs
from ablate.terminal import make_console, say


def report(
    run: Run,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The page. [default: report.html in the run's folder]")
    ] = None,
) -> None:
    """Write one HTML page about a run: the verdict and its evidence, figures, methods, provenance."""
    from ablate.record.output_path import check_file
    from ablate.record.reader import Run as OpenRun
    from analysis.report import write_report
    from analysis.report_progress import progress

    opened = OpenRun(run)
    page = output or opened.paths.report
    if output:
        check_file(output, "--output")
    with progress(make_console(stderr=True)) as told:
        write_report(opened, page, told)
    say(f"wrote {page}")


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
    say(f"wrote {found.root}: {found.trials} trials, {found.rows} batches")
    if found.ended_early:
        say(f"{found.ended_early} trials end before the longest one and have no outcome")
    say("imported: initial weights, data and draws were not recorded", f"next: ablate gap {found.root}")


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
    say(f"wrote {folder}: rows {counts}; read back, equal bit for bit")
