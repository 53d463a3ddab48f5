"""Arguments that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ablate.remote.location import refuse_uri

Grid = Annotated[Path, typer.Argument(help="The grid file.", show_default=False)]
Run = Annotated[str, typer.Argument(help="A run's folder or URI, or a study's name under ./runs.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
Runs = Annotated[Path, typer.Option("--runs", help="Folder of all runs.", callback=refuse_uri)]
RunsOrUri = Annotated[str, typer.Option("--runs", help="Folder of all runs, or a URI such as s3://bucket/runs.")]
Cluster = Annotated[
    Path | None,
    typer.Option(
        "--cluster", metavar="FILE", help="What nodes the cluster can add: its `ray up` file or KubeRay manifest."
    ),
]
