"""The built wheel in a fresh virtual environment, from an empty folder: init, launch, gap."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def run(*words: str | Path, cwd: Path) -> str:
    # another environment's variables must not leak in: the wheel has to bring all it needs
    environment = {key: value for key, value in os.environ.items() if key not in ("VIRTUAL_ENV", "PYTHONPATH")}
    done = subprocess.run(list(map(str, words)), cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.mark.slow
def test_the_wheel_holds_code_data_configs_and_no_tests(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    for wanted in (
        "ablate/cli.py",
        "ablate/starter/grid.yaml",
        "ablate/configs/retracted_gap.yaml",
        "trainables/data/mnist_5k.npz",
        "trainables/data/NOTICE.md",
        "analysis/gap.py",
        "analysis/notebooks/01_gap.ipynb",
        "analysis/notebooks/02_verdict.ipynb",
        "analysis/notebooks/04_saddles.ipynb",
        "analysis/templates/report.html.j2",
    ):
        assert wanted in names
    assert not [name for name in names if name.startswith("tests")]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_init_launch_and_gap_work_in_a_fresh_environment(wheel: Path, tmp_path: Path) -> None:
    run(sys.executable, "-m", "venv", tmp_path / "venv", cwd=tmp_path)
    binaries = tmp_path / "venv" / "bin"
    pip = (binaries / "pip", "install", "--quiet", "--disable-pip-version-check", "-c", ROOT / "constraints.txt")
    run(*pip, "torch==2.13.0", cwd=tmp_path)
    run(*pip, wheel, cwd=tmp_path)
    work = tmp_path / "empty folder"
    work.mkdir()
    ablate = binaries / "ablate"
    assert "wrote grid.yaml" in run(ablate, "init", cwd=work)
    launched = run(ablate, "launch", "grid.yaml", cwd=work)
    assert launched == run(ablate, "gap", "my_first_study", cwd=work)
    assert launched.split(":")[0] in ("EQUIVALENT", "INCONCLUSIVE", "SYSTEMATIC")
    assert "BITWISE EQUAL" in launched  # the A/A control
    assert "wrote" in run(ablate, "report", "my_first_study", cwd=work)
    assert (work / "runs" / "my_first_study" / "report.html").read_text().startswith("<!doctype html>")
    assert "0 errors" in run(ablate, "check", "my_first_study", cwd=work)
