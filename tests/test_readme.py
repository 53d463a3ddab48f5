"""What the README shows is real: its grid loads, its function trainable trains, its commands and its query run."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ablate.design.cross import trials
from ablate.design.starter import write_starter
from ablate.launch.study import read_study

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
ABLATE = Path(sys.executable).parent / "ablate"

FUNCTION_GRID = """
study: my_first_study
question: Does the function of the README train?
trainable: my_function:train
settings: {hidden: 4, lr: 0.1}
batches: 3
blocks: 2
arms: {plain: {}, no-onednn: {onednn: false}}
"""


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def run(*words: str, cwd: Path) -> str:
    done = subprocess.run([str(ABLATE), *words], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_grid_file_is_valid_for_the_starters_trainable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_starter(tmp_path)
    grid, _, probes = blocks("yaml")
    (tmp_path / "grid.yaml").write_text(grid + probes)
    monkeypatch.chdir(tmp_path)
    study = read_study(Path("grid.yaml"))
    assert len(trials(study.grid)) == 2 * (3 * 7 + 2)
    assert study.grid.probes.curvature is not None
    assert study.grid.probes.curvature.at == (0, 50, 100, study.grid.batches)


def test_the_function_trainable_the_commands_and_the_query_run(tmp_path: Path) -> None:
    function, query, _ = blocks("python")
    before = "import torch\nmake_model = lambda hidden: torch.nn.Linear(1, hidden)\n"
    (tmp_path / "my_function.py").write_text(before + function)
    (tmp_path / "grid.yaml").write_text(FUNCTION_GRID)
    plan = json.loads(run("plan", "grid.yaml", "--json", cwd=tmp_path))
    assert "my_first_study" in run("plan", "grid.yaml", cwd=tmp_path)
    launched = run("launch", "grid.yaml", "--local", cwd=tmp_path)
    assert launched == run("gap", "my_first_study", cwd=tmp_path)
    assert "0 errors" in run("check", "my_first_study", cwd=tmp_path)
    trial = plan["trials"][0]["trial_id"]
    assert f"recorded in runs/my_first_study.{trial}" in run("trial", "grid.yaml", trial, cwd=tmp_path)
    rows = subprocess.run(
        [sys.executable, "-c", f"{query}\nprint(len(losses))"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert rows.stdout.strip() == "12"


def test_the_curvature_of_any_model_runs_as_shown() -> None:
    *_, shown = blocks("python")
    before = (
        "import torch\nmodel, loss = torch.nn.Linear(3, 1), torch.nn.functional.mse_loss\n"
        "inputs, targets = torch.ones(4, 3), torch.zeros(4, 1)\n"
    )
    done = subprocess.run([sys.executable, "-c", before + shown], capture_output=True, text=True, check=True)
    assert float(done.stdout.split()[0]) == pytest.approx(8)  # 2 (1, 1, 1, 1) (1, 1, 1, 1)', whose other values are 0


def test_the_commands_shown_first_are_targets_of_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"`?make ([a-z-]+)", README)) <= targets


def test_links_lead_somewhere() -> None:
    for page in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"):
        for target in re.findall(r"\]\(([^)#]+)\)", (ROOT / page).read_text()):
            assert "://" in target or (ROOT / target).exists(), (page, target)


def test_the_files_that_the_readme_names_exist() -> None:
    for name in re.findall(r"`((?:ablate|configs|trainables|analysis)/[\w/]+\.\w+)`", README):
        assert (ROOT / name).exists(), name
