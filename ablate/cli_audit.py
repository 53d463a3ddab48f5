"""`ablate audit`: is the arithmetic right, here and against another machine?"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from ablate.cli_arguments import Grid, Json, Runs
from ablate.terminal import emit, make_console


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
    from dataclasses import asdict

    from ablate.errors import TrialsFailed, VerdictReached
    from ablate.launch.audit import audit as run_audit
    from ablate.launch.audit import cut_down
    from ablate.launch.audit_file import read_audit_file
    from ablate.launch.audit_kept import KeptFiles, check_same_study, in_the_study
    from ablate.launch.failures import alone, problems
    from ablate.launch.study import read_study
    from ablate.record.output_path import check_file
    from ablate.record.reader import Run as OpenRun
    from analysis.audit_report import FAULTS, Comparison, audit_report
    from analysis.audit_text import print_audit

    study = read_study(grid)
    if save:
        check_file(save, "--save")
    root = runs / f"{study.grid.study}.audit"
    with TemporaryDirectory(prefix="ablate-audit-") as name:
        folder = Path(name)
        file = read_audit_file(against, folder) if against else None
        keep = folder / "kept"
        keep.mkdir()
        small = cut_down(study, file.inputs if file else None, keep)
        if file:
            check_same_study(small, file)
        launched = run_audit(small, root, make_console(stderr=True))
        if launched.failed:
            failed = in_the_study(launched.failed, small, study)
            raise TrialsFailed(*problems(failed, launched.ran, str(root), alone(grid, runs)))
        run = OpenRun(root)
        kept = KeptFiles(small, keep, run)
        compared = kept.against(file) if file else []
        found = [Comparison(one.trial, one.cause, one.detail) for one in compared]
        if file:  # a launch of its own would have begun from other data than the file's
            rows = (row for row in run.audits(["check", "detail"]).to_pylist() if row["check"] == "inputs")
            found += [Comparison("own data", "CONFOUNDED", row["detail"]) for row in rows]
        made_on = ", ".join(str(value) for value in file.machine.values() if value) if file else ""
        report = audit_report(run, kept.differs, kept.unequal, found, made_on)
        if save:
            kept.save(save)
    emit(
        {**report.to_json(), "values": [asdict(one) for one in compared]},
        as_json,
        lambda console: print_audit(report, console),
    )
    if report.cause in FAULTS:
        raise typer.Exit(VerdictReached.exit_code)
