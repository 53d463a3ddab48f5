"""`ablate guard`: any training script, unchanged, under the saved-tensor guard."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

SETTINGS = {"allow_interspersed_args": False}
"""What follows the script's name is the script's, options too."""


def guard(
    script: Annotated[
        list[str], typer.Argument(metavar="SCRIPT", help="And its arguments, as after `python`.", show_default=False)
    ],
    module: Annotated[bool, typer.Option("-m", help="SCRIPT is a module's name, as after `python -m`.")] = False,
    first: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Watch the first N backward passes only. [default: all]")
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write what was seen there, for scripts.")
    ] = None,
) -> None:
    """Run a training script and say which tensors it overwrites between forward and backward; exit 5 if it does."""
    from ablate.audit.script import start

    start(script, module, first or 0, json_file)
