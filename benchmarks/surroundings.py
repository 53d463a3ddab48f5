"""Where a benchmark ran: the machine, how busy it was before, and the versions."""

from __future__ import annotations

import os
import platform
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

from ablate.trial.cpu import cpu_model

PACKAGES = (
    *("torch", "numpy", "ray", "pyarrow", "duckdb", "pandas", "scipy", "statsmodels", "polars"),
    *("tensorboard", "tensorboardX", "wandb", "pydantic", "xxhash"),
)
IDLE = 0.5
"""A load average of a minute up to this is nobody else's work."""


@dataclass(frozen=True)
class Surroundings:
    """One machine at one time; ``load`` is how many processes wanted to run in the last minute."""

    date: str
    processor: str
    cores: int
    memory_gb: float
    system: str
    load: float
    versions: dict[str, str]
    command: str

    @classmethod
    def now(cls) -> Surroundings:
        """Look at this machine."""
        versions = {"Python": platform.python_version()}
        for name in PACKAGES:
            try:
                versions[name] = version(name)
            except PackageNotFoundError:
                versions[name] = "not installed"
        return cls(
            date=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
            processor=cpu_model(),
            cores=len(os.sched_getaffinity(0)),
            memory_gb=psutil.virtual_memory().total / 1e9,
            system=_system(),
            load=os.getloadavg()[0],
            versions=versions,
            command=" ".join(["python", os.path.relpath(sys.argv[0]), *map(_without_place, sys.argv[1:])]),
        )

    def lines(self) -> list[str]:
        """Return a list in Markdown."""
        busy = "" if self.load <= IDLE else ": **other work was running**, so seconds are too long"
        return [
            f"- date: {self.date}",
            f"- machine: {self.processor}, {self.cores} cores, {self.memory_gb:.0f} GB of memory",
            f"- system: {self.system}",
            f"- load before: {self.load:.2f}{busy}",
            f"- versions: {', '.join(f'{name} {found}' for name, found in self.versions.items())}",
        ]


def _without_place(word: str) -> str:
    """Return a word of the command line; of a path from the root its name alone, since a page is for any machine."""
    return Path(word).name if Path(word).is_absolute() else word


def _system() -> str:
    kernel = f"{platform.system()} {platform.release().split('-')[0]}"
    try:
        return f"{platform.freedesktop_os_release()['PRETTY_NAME']}, {kernel}"
    except OSError:  # no Linux, or one that does not say which
        return kernel
