"""``make gpu`` rehearsed without a GPU: its grids planned as they are, and run shrunk with the CPU standing in."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from ablate.design.grid import load_grid
from ablate.design.plan import plan
from ablate.record.check import check
from ablate.record.reader import Run

ROOT = Path(__file__).parent.parent.parent
SCRIPT = ROOT / "benchmarks" / "gpu_gap.py"
STAND_IN = {
    "device: cuda, tf32: true": "env: {ATEN_CPU_CAPABILITY: default}",
    "device: cuda": "onednn: false",
    ", resources: {GPU: 0.25}": "",
    "blocks: 8": "blocks: 2",
    "batches: 1000": "batches: 60",
    "batches: 90": "batches: 6",
    "last: 40": "last: 3",
    "window: 20": "window: 5",
}
"""The CPU takes the GPU's place in the file alone: the program has no way to run a GPU arm on a CPU."""


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gpu_gap", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["gpu_gap", "gpu_gap_autoencoder"])
def test_every_contrast_can_reach_significance(name: str) -> None:
    grid = load_grid(ROOT / "configs" / f"{name}.yaml")
    planned = plan(grid, cores=2)
    assert not planned.warnings
    assert all(contrast.smallest_adjusted_p < 0.05 for contrast in planned.contrasts)
    for name, arm in grid.arms.items():
        assert arm.numerics.device == ("cuda" if name.startswith("gpu") else "cpu")
        assert arm.resources.get("GPU", 0.0) == (0.25 if name.startswith("gpu") else 0.0)


def test_both_inputs_run_on_both_devices_with_controls() -> None:
    grid = load_grid(ROOT / "configs" / "gpu_gap.yaml")
    cells = {(arm.numerics.device, arm.settings["input"]) for arm in grid.arms.values() if not arm.control}
    assert cells == {(device, kind) for device in ("cpu", "cuda") for kind in ("copied", "reused-buffer")}
    controls = {(arm.numerics.device, arm.numerics.perturb) for arm in grid.arms.values() if arm.control}
    assert controls == {(device, perturb) for device in ("cpu", "cuda") for perturb in (None, "one-ulp")}


def test_without_a_gpu_nothing_is_run(tmp_path: Path) -> None:
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    words = [sys.executable, str(SCRIPT), "--results", str(tmp_path / "results")]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 4
    assert done.stderr == (
        "error: nvidia-smi lists no GPU here; nothing was run. Without one, the same path is rehearsed on the CPU by\n"
        "    pytest -m slow tests/benchmarks\n"
    )
    assert not (tmp_path / "results").exists()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_study_runs_to_its_results_folder(script: ModuleType, tmp_path: Path) -> None:
    grids = []
    for grid in script.GRIDS:
        text = grid.read_text()
        for before, after in STAND_IN.items():
            text = text.replace(before, after)
        assert "cuda" not in text.partition("arms:")[2]
        grids.append(tmp_path / grid.name)
        grids[-1].write_text(text)
    results = tmp_path / "results"
    results.mkdir()
    assert script.study_all(grids, results, {}) == 0

    machine = json.loads((results / "machine.json").read_text())
    assert set(machine["seconds"]) == {"gpu_gap", "gpu_gap_autoencoder"}
    assert machine["cpu_model"]
    assert machine["torch"]
    assert len(machine["commit"]) in (0, 40)
    assert "host" not in machine
    for grid in grids:
        assert not [finding for finding in check(Run(results / "runs" / grid.stem)) if finding.severity == "error"]
        assert json.loads((results / f"{grid.stem}.json").read_text())["study"] == grid.stem
        assert not (results / "runs" / grid.stem / "initial").exists()
    words = " ".join((results / "gpu_gap.txt").read_text().split())
    assert "BUG: this tensor was overwritten between forward and backward" in words
    assert sum(path.stat().st_size for path in results.rglob("*") if path.is_file()) < 4e6
    # broken off and run again, it goes on: nothing is left to do
    assert script.study_all(grids, results, {}) == 0
