"""From an error to what the user reads and the process's exit code (README, exit codes)."""

from __future__ import annotations

from typing import Any

import typer

KEPT = "finished trials are kept, the others begin again or at their checkpoint: launch again to resume"

USAGE_ERROR: Any = typer.BadParameter.__mro__[1]
"""click's UsageError, wherever this release of typer keeps click."""


def exit_code(error: BaseException) -> int:
    """Print what a user should read of ``error`` and return the exit code."""
    from ablate.errors import AblateError, Terminated

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
    if isinstance(error, Terminated):
        typer.echo(f"terminated; {KEPT}", err=True)
        return 143
    import traceback

    traceback.print_exception(error)
    typer.echo("error: this is a fault of ablate itself; please report it with the lines above", err=True)
    return 1
