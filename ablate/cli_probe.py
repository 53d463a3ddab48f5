"""`ablate probe`: the curvature of the weights that a run's trials kept, after the fact."""

from __future__ import annotations

import shlex
from typing import Annotated

import typer

from ablate.cli_arguments import Json, Run
from ablate.terminal import emit, make_console


def probe(
    run: Run,
    trial: Annotated[
        str | None, typer.Option("--trial", metavar="T", help="One trial: ARM/BLOCK, or its id. [default: all]")
    ] = None,
    at: Annotated[
        list[int] | None,
        typer.Option(
            "--at", metavar="N", min=0, help="Only the weights after N batches; may be repeated. [default: all kept]"
        ),
    ] = None,
    local: Annotated[bool, typer.Option("--local", help="Run on this machine without Ray.")] = False,
    address: Annotated[
        str | None, typer.Option(envvar="RAY_ADDRESS", help="A Ray cluster. [default: an embedded local Ray]")
    ] = None,
    allow_mixed_code: Annotated[
        bool, typer.Option("--allow-mixed-code", help="Look although the trainable's code has changed since.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Look at the curvature of the weights that a run kept, as far as it was not done. Run it again to resume."""
    from ablate.errors import TrialsFailed
    from ablate.launch.failures import probe_problems
    from ablate.launch.launchers import new_launcher
    from ablate.launch.probe_later import probe_later, select, study_of
    from ablate.record.reader import Run as OpenRun

    opened = OpenRun(run)
    study = study_of(opened)
    selected = select(study, trial, at or ())
    root = opened.uri or opened.paths.root
    launcher = new_launcher(local, address, (), study, None if opened.uri else opened.paths.root)
    probed, before = probe_later(selected, launcher, root, make_console(stderr=True), allow_mixed_code)
    content = {
        "run": str(root),
        "snapshots": probed.snapshots,
        "trials": probed.trials,
        "before": before,
        "failed": [end.model_dump(mode="json") for end in probed.failed],
    }
    looked = f"looked at {probed.snapshots} snapshots of {probed.trials} trials"
    words = looked if probed.trials else "nothing to do"
    words += f"; {before} had been looked at before" if before else ""
    emit(content, as_json, lambda console: console.print(f"{words}\nnext: ablate saddle {shlex.quote(str(root))}"))
    if probed.failed:
        raise TrialsFailed(*probe_problems(probed.failed, probed.trials, str(root)))
