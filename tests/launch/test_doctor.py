"""What a machine offers and what would bias a study on it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from ablate.launch.doctor import load_concerns, machine_concerns, shell_concerns

ABLATE = str(Path(sys.executable).parent / "ablate")
PLENTY = 2**40


def test_the_command_names_machine_versions_and_concerns(tmp_path: Path) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "7"}
    done = subprocess.run([ABLATE, "doctor"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    for fact in ("CPU", "cores", "torch", "ray", "BLAS", "oneDNN", "GPU", "instruction set torch uses"):
        assert fact in done.stdout
    assert "OMP_NUM_THREADS=7" in done.stdout
    assert "ablate drops them for its trials; give what you mean to an arm." in done.stdout
    as_json = subprocess.run([ABLATE, "doctor", "--json"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert json.loads(as_json.stdout)["facts"]["BLAS"] != "unknown"


def test_a_quiet_machine_with_a_clean_shell_gives_no_concern() -> None:
    assert not load_concerns(2.0, 0.0)
    assert not shell_concerns({"HOME": "/h"})
    assert not machine_concerns(8, None, "performance", PLENTY)
    assert not machine_concerns(8, 8.0, "", PLENTY)


def test_other_work_and_noisy_neighbours_are_named() -> None:
    other, neighbour = load_concerns(40.0, 5.0)
    assert "other processes use 40 % of the cores" in str(other)
    assert "a noisy neighbour: other virtual machines take 5 %" in str(neighbour)
    assert "losses can" in neighbour.advice


def test_oversubscription_one_core_the_governor_and_a_full_disk_are_named() -> None:
    assert "this container may use 1.5 cores, but 4 are visible: oversubscription" in str(
        machine_concerns(4, 1.5, "", PLENTY)[0]
    )
    assert machine_concerns(1, None, "", PLENTY)[0].what == "one core"
    assert "governor is 'powersave'" in machine_concerns(4, None, "powersave", PLENTY)[0].what
    assert "less than 1 GiB of disk is free" in machine_concerns(4, None, "", 2**20)[0].what
