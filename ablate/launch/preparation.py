"""Runs ``ablate.trial.prepare`` in a process of its own: data checked, weights made, before any trial."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from ablate.design.trial_spec import TrialSpec
from ablate.errors import AblateError, BadInput, Problem, StoreError
from ablate.trial.environment import process_environment
from ablate.trial.prepare import REFERENCE, Prepared, Request


class Preparation:
    """Preparation under way; it runs beside Ray's start."""

    def __init__(self, specs: Sequence[TrialSpec], initial: Path, search: tuple[str, ...]) -> None:
        distinct = {json.dumps([spec.settings, spec.block], sort_keys=True): spec for spec in specs}
        self._trainable = specs[0].trainable
        # not a pipe: nobody reads it meanwhile, and a full one would stop the process
        self._printed = tempfile.TemporaryFile(mode="w+", errors="replace")  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, "-m", "ablate.trial.prepare"],
            env=process_environment(REFERENCE, os.environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._printed,
            text=True,
        )
        workers = max(spec.numerics.workers for spec in specs)
        request = Request(specs=tuple(distinct.values()), initial=str(initial), search=search, workers=workers)
        assert self._process.stdin is not None
        with suppress(BrokenPipeError), self._process.stdin:  # it died already: wait() says of what
            self._process.stdin.write(request.model_dump_json())

    def wait(self, progress: Callable[[int, int], None]) -> Prepared:
        """Wait for the end.

        Args:
            progress: told how many of how many initial weights are made.

        Raises:
            BadInput: the trainable cannot be imported or built, or its data are bad.
            StoreError: the weights cannot be written.
            AblateError: the process died.
        """
        assert self._process.stdout is not None
        for line in self._process.stdout:
            message = json.loads(line)
            if "done" in message:
                progress(message["done"], message["of"])
            elif "prepared" in message:
                self._process.wait()
                return Prepared.model_validate(message["prepared"])
            elif "error" in message:
                kind = StoreError if message["exit_code"] == StoreError.exit_code else BadInput
                raise kind(*(Problem(**problem) for problem in message["error"]))
            elif "trace" in message:
                raise BadInput(
                    Problem(
                        where=f"trainable: {self._trainable}",
                        found="it raised before any trial was started:\n      "
                        + message["trace"].replace("\n", "\n      "),
                        advice="Nothing was run. Mend it and launch again.",
                    )
                )
        code = self._process.wait()
        self._printed.seek(0)
        said = "\n      ".join(self._printed.read().splitlines()[-8:])
        raise AblateError(Problem("preparation", f"its process ended with code {code}\n      {said}"))

    def cancel(self) -> None:
        """End it, if it still runs, and let go of what it printed."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for stream in (self._process.stdout, self._printed):
            if stream is not None:
                stream.close()
