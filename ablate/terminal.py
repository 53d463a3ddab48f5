"""What is printed and how: for people, as JSON for scripts, and to readers that leave early."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console


def emit(content: Any, as_json: bool, render: Any) -> None:
    """Print ``content`` as JSON, or let ``render`` print it on a console."""
    with _reader_may_leave():
        if as_json:
            typer.echo(json.dumps(content, indent=1, allow_nan=False))
        else:
            render(make_console())


def say(*lines: str) -> None:
    """Print lines of text."""
    with _reader_may_leave():
        for line in lines:
            typer.echo(line)


def make_console(stderr: bool = False) -> Console:
    """Return a rich console that outlives its reader."""
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
