"""Run every benchmark in turn, each in a process of its own, and write what they found to docs/benchmarks.md.

    make bench, or python benchmarks/all.py [NAME...] [--page FILE]

A name is a script's, without ``.py``; with names only those are run, and a page is written only where ``--page`` says
so. A script that fails is said, in the page too, and the others go on; the exit code is then 1.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console

from benchmarks.measured import Comparison
from benchmarks.page import Section, page
from benchmarks.surroundings import Surroundings

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "benchmarks.md"
LONGEST_S = 1200.0
"""A script that takes longer has gone wrong."""


@dataclass(frozen=True)
class Script:
    """One benchmark.

    Attributes:
        file: its name in this folder.
        seconds: about how long it takes on two cores, for the estimate of what is left.
    """

    file: str
    seconds: float

    @property
    def name(self) -> str:
        """How it is called on the command line."""
        return Path(self.file).stem

    @property
    def alone(self) -> str:
        """The command that runs it by itself, from the repository's root."""
        return f"OMP_NUM_THREADS=1 PYTHONPATH=. .venv/bin/python benchmarks/{self.file}"


SCRIPTS = (
    Script("launch_overhead.py", 200),
    Script("launch_efficiency.py", 340),
    Script("many_trials.py", 170),
    Script("impossible_arm.py", 50),
    Script("recording.py", 130),
    Script("prednet_step.py", 110),
    Script("guard.py", 30),
    Script("audit.py", 180),
    Script("sketch.py", 5),
    Script("pending_trials.py", 130),
    Script("compaction.py", 90),
    Script("listing.py", 15),
    Script("analysis_scale.py", 300),
)


def run(script: Script, folder: Path, longest_s: float = LONGEST_S) -> Section:
    """Run a script to its end, however that comes; what it started ends with it."""
    found = folder / f"{script.name}.json"
    words = [sys.executable, str(ROOT / "benchmarks" / script.file), "--json", str(found)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    said = folder / f"{script.name}.err"
    began = time.monotonic()
    with said.open("w") as errors:  # no pipe: what a script leaves running would hold it open
        process = subprocess.Popen(
            words, cwd=ROOT, env=environment, start_new_session=True, stdout=subprocess.DEVNULL, stderr=errors
        )
        try:
            ended = f"exit code {process.wait(longest_s)}"
        except subprocess.TimeoutExpired:
            ended = f"not done after {longest_s:.0f} s"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    seconds = time.monotonic() - began
    last = "\n".join(said.read_text().strip().splitlines()[-5:])
    if process.returncode or not found.exists():
        return Section(script.name, script.alone, seconds=seconds, failed=f"{ended}\n{last}".strip())
    told: dict[str, Any] = json.loads(found.read_text())
    rows = tuple(Comparison(**{**row, "ours": tuple(row["ours"]), "peer": tuple(row["peer"])}) for row in told["rows"])
    return Section(script.name, script.alone, seconds=seconds, title=told["title"], rows=rows)


def run_all(scripts: Sequence[Script], console: Console) -> list[Section]:
    """Run scripts one after the other, saying before each what is left and after each how it ended."""
    sections: list[Section] = []
    began, foreseen = time.monotonic(), 0.0
    with TemporaryDirectory() as folder:
        for number, script in enumerate(scripts):
            gone = time.monotonic() - began
            pace = gone / foreseen if foreseen else 1.0  # against what the table says of those that ran
            left = pace * sum(other.seconds for other in scripts[number:])
            place = f"[{number + 1} of {len(scripts)}] {script.file}"
            with console.status(f"{place}: {minutes(gone)} gone, about {minutes(left)} left"):
                section = run(script, Path(folder))
            console.print(f"{place}: {section.outcome}", markup=False, highlight=False)
            foreseen += script.seconds
            sections.append(section)
    return sections


def minutes(seconds: float) -> str:
    """Say a time as a person would."""
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="which to run; all without")
    parser.add_argument("--page", type=Path, help=f"where to write; {PAGE.relative_to(ROOT)} if all are run")
    asked = parser.parse_args(words)
    known = {script.name: script for script in SCRIPTS}
    if unknown := [name for name in asked.names if name not in known]:
        parser.error(f"{unknown[0]!r} is none of {', '.join(known)}")
    chosen = [known[name] for name in asked.names] or list(SCRIPTS)
    file = asked.page or (None if asked.names else PAGE)
    console, surroundings = Console(), Surroundings.now()
    began = time.monotonic()
    sections = run_all(chosen, console)
    others = [name for name, script in known.items() if script not in chosen]
    text = page(surroundings, sections, others, time.monotonic() - began)
    if file is None:
        console.print(text, markup=False, highlight=False)
    else:
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        console.print(f"written to {file}", markup=False, highlight=False)
    return int(any(section.failed for section in sections))


if __name__ == "__main__":
    sys.exit(main())
