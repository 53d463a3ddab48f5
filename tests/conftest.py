"""What whole launches are tested with: a hostile folder, the real command line, a look for what was left running."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow.compute as pc
import pytest

from ablate.record.check import check
from ablate.record.reader import Run

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # tests in a shell's background; what they start would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)

DOUBLES = Path(__file__).with_name("doubles.py")
ABLATE = Path(sys.executable).with_name("ablate")
GONE_S = 4.0
"""Trials end within 2 s of their launch's death, fork servers a second after the last trial; the rest is polling."""
RAY_GONE_S = 30.0
"""Until the processes of a Ray whose driver was killed are gone: 3 s on an idle machine."""


@dataclass(frozen=True)
class Done:
    """A command that ended. ``text`` is what a user sees: both streams."""

    code: int
    out: str
    err: str
    seconds: float

    @property
    def text(self) -> str:
        return self.out + self.err

    @property
    def words(self) -> str:
        """The text without line breaks and indentation."""
        return " ".join(self.text.split())


class Workplace:
    """A folder with a grid and the doubles in it; everything started here carries a mark, so it can be found again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mark = f"ABLATE_TEST_MARK={uuid.uuid4().hex}"
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(DOUBLES, folder)

    @property
    def environment(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("DOUBLES_", "RAY_ADDRESS", "PYTEST_"))}
        name, _, value = self.mark.partition("=")
        return {**kept, name: value, "COLUMNS": "200"}

    def grid(self, text: str, name: str = "grid.yaml", **changes: object) -> Path:
        """Write a grid of the doubles; ``text`` gives arms and what else is to be said, ``changes`` top-level keys."""
        keys = {
            "study": "doubles",
            "question": "Does it hold?",
            "trainable": "doubles:Structured",
            "blocks": 2,
            "batches": 6,
            "outcome": "{metric: loss, last: 3}",
            "guard": "{first: 1, every: 0}",
            **changes,
        }
        path = self.folder / name
        lines = [f"{key}: {value}" for key, value in keys.items() if value is not None]
        audit = "" if "audit" in changes else "audit: {first: 0}\n"  # last, so that line numbers are the test's own
        path.write_text("\n".join(lines) + "\n" + textwrap.dedent(text) + audit, encoding="utf-8")
        return path

    def start(self, *words: object, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """Start a command as a terminal would: in a process group of its own."""
        return subprocess.Popen(
            [str(ABLATE), *map(str, words)],
            cwd=self.folder,
            env={**self.environment, **(env or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def finish(self, process: subprocess.Popen[str], timeout_s: float = 120.0) -> Done:
        """Wait for a command that was started."""
        began = time.monotonic()
        out, err = process.communicate(timeout=timeout_s)
        return Done(process.returncode, out, err, time.monotonic() - began)

    def ablate(self, *words: object, env: Mapping[str, str] | None = None) -> Done:
        """Run a command to its end."""
        return self.finish(self.start(*words, env=env))

    def root(self, study: str = "doubles") -> Path:
        return self.folder / "runs" / study

    def running(self) -> dict[int, str]:
        """Return the processes that were started from here, with their command lines."""
        found = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            try:
                if self.mark.encode() in (entry / "environ").read_bytes():
                    command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                    if command and (entry / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX":
                        found[int(entry.name)] = command
            except OSError:
                continue
        return found

    def left_running(self, within_s: float = GONE_S) -> dict[int, str]:
        """Return what still runs after the time that it has to end."""
        deadline = time.monotonic() + within_s
        while (running := self.running()) and time.monotonic() < deadline:
            time.sleep(0.1)
        return running

    def kill_everything(self) -> None:
        """End what a failed test left, by process id."""
        for pid in self.running():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


def whole(root: Path, batches: int = 6, statuses: str = "done") -> int:
    """Assert that a store has every planned batch once and nothing left over; return its number of trials."""
    run = Run(root)
    assert check(run) == []
    trials = run.trials().to_pylist()
    assert {row["status"] for row in trials} == set(statuses.split())
    for row in trials:
        rows = run.batches(["batch_index"], pc.field("trial_id") == row["trial_id"]).column(0).to_pylist()
        assert rows == list(range(row["batches"]))
        assert row["status"] == "diverged" or len(rows) == batches
    return len(trials)


def wait_for(condition, within_s: float = 60.0):
    """Wait until ``condition()`` is truthy and return it."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if result := condition():
            return result
        time.sleep(0.02)
    raise AssertionError(f"not within {within_s} s: {condition}")


def _workplace(folder: Path) -> Iterator[Workplace]:
    place = Workplace(folder / "räksmörgås 'n $HOME ünï 测试")
    yield place
    left = place.left_running()
    place.kill_everything()
    assert not left, f"left running: {left}"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Workplace]:
    """A folder with spaces, quotes and letters of several alphabets; nothing started from it may outlive the test."""
    yield from _workplace(tmp_path)


@pytest.fixture(scope="module")
def shared_place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workplace]:
    """The same for all tests of a file."""
    yield from _workplace(tmp_path_factory.mktemp("shared"))
