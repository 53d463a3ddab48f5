"""What this machine offers, and what would bias a study that is run on it."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from ablate.design.trial_spec import Numerics
from ablate.launch.placement import available_cores
from ablate.trial.cpu import cpu_model
from ablate.trial.environment import NUMERIC_PREFIXES, process_environment

ASK_TORCH = """
import json, platform
import numpy, torch, ray
import re
blas = (re.findall(r"BLAS_INFO=(\\w+)", torch.__config__.show()) or ["unknown"])[0]
cuda = torch.cuda.is_available()
print(json.dumps({
    "python": platform.python_version(), "torch": torch.__version__,
    "numpy": numpy.__version__, "ray": ray.__version__,
    "instruction set torch uses": torch.backends.cpu.get_cpu_capability(), "BLAS": blas,
    "oneDNN": "yes" if torch.backends.mkldnn.is_available() else "no",
    "GPU": ", ".join(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())) if cuda else "none",
}))
"""

SAMPLE_S = 1.0
"""How long the machine is watched for other work."""


@dataclass(frozen=True)
class Concern:
    """Something that will bias a study or spoil its timings, and what to do about it."""

    what: str
    advice: str

    def __str__(self) -> str:
        return f"{self.what}\n    {self.advice}"


@dataclass(frozen=True)
class Diagnosis:
    """What was found: facts by name, and concerns."""

    facts: Mapping[str, str]
    concerns: tuple[Concern, ...]


def diagnose(environment: Mapping[str, str], folder: Path) -> Diagnosis:
    """Look at this machine; takes a few seconds, since torch is asked in a process of its own.

    Args:
        environment: the shell's variables.
        folder: where runs would be written.
    """
    busy = psutil.cpu_percent(SAMPLE_S)
    steal = psutil.cpu_times_percent(SAMPLE_S / 2).steal if platform.system() == "Linux" else 0.0
    memory, disk = psutil.virtual_memory(), shutil.disk_usage(folder)
    facts = {
        "machine": platform.node(),
        "system": platform.platform(),
        "CPU": cpu_model(),
        "cores": f"{available_cores()} usable of {os.cpu_count()}",
        "memory": f"{memory.available / 2**30:.1f} of {memory.total / 2**30:.1f} GiB free",
        "disk": f"{disk.free / 2**30:.1f} GiB free at {folder}",
        "busy": f"{busy:.0f} % of all cores, by other processes",
    }
    said, concerns = _ask_torch()
    concerns += load_concerns(busy, steal)
    concerns += shell_concerns(environment)
    concerns += machine_concerns(available_cores(), _quota(), _governor(), disk.free)
    return Diagnosis({**facts, **said}, tuple(concerns))


def load_concerns(busy: float, steal: float) -> list[Concern]:
    """Judge other work: percent of all cores in use, and percent of time taken by other virtual machines."""
    found = []
    if busy > 15:
        found.append(
            Concern(
                f"other processes use {busy:.0f} % of the cores",
                "durations will vary and trials take longer; losses do not change. End them, or plan for it.",
            )
        )
    if steal > 2:
        found.append(
            Concern(
                f"a noisy neighbour: other virtual machines take {steal:.0f} % of this one's processor time",
                "durations cannot be compared here; losses can.",
            )
        )
    return found


def shell_concerns(environment: Mapping[str, str]) -> list[Concern]:
    """Name numeric variables of the shell, which other programs obey and trials do not."""
    names = sorted(name for name in environment if name.startswith(NUMERIC_PREFIXES))
    if not names:
        return []
    shown = ", ".join(f"{name}={environment[name]}" for name in names)
    return [Concern(f"set in this shell: {shown}", "ablate drops them for its trials; give what you mean to an arm.")]


def machine_concerns(cores: int, quota: float | None, governor: str, free: int) -> list[Concern]:
    """Judge what the machine allows: cores, a container's processor quota, the clock's governor, free disk in bytes."""
    found = []
    if quota is not None and quota < cores:
        found.append(
            Concern(
                f"this container may use {quota:g} cores, but {cores} are visible: oversubscription",
                "ask for no more threads than the quota, and launch with `taskset` on that many cores.",
            )
        )
    if cores == 1:
        found.append(Concern("one core", "arms that differ in threads cannot run here."))
    if governor not in ("", "performance"):
        found.append(
            Concern(f"the clock's governor is {governor!r}", "durations will vary with the load; set `performance`.")
        )
    if free < 2**30:
        found.append(Concern("less than 1 GiB of disk is free", "a full disk ends a launch; rows recorded are kept."))
    return found


def _ask_torch() -> tuple[dict[str, str], list[Concern]]:
    environment = process_environment(Numerics(), os.environ)
    environment.pop("CUDA_VISIBLE_DEVICES")
    done = subprocess.run(
        [sys.executable, "-c", ASK_TORCH], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode == 0:
        said: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
        return said, []
    last = (done.stderr.strip().splitlines() or ["no message"])[-1]
    return {}, [Concern(f"torch, numpy or ray does not import: {last}", "Nothing can run until it does.")]


def _quota() -> float | None:
    """Cores that the control group allows; None without a limit. Version 2 first, then 1."""
    try:
        limit, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return None if limit == "max" else int(limit) / int(period)
    except (OSError, ValueError):
        pass
    try:
        limit_us = int(Path("/sys/fs/cgroup/cpu/cpu.cfs_quota_us").read_text())
        return limit_us / int(Path("/sys/fs/cgroup/cpu/cpu.cfs_period_us").read_text()) if limit_us > 0 else None
    except (OSError, ValueError):
        return None


def _governor() -> str:
    try:
        return Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").read_text().strip()
    except OSError:
        return ""
