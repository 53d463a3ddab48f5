"""What ``make gpu`` runs on a machine with a GPU: the tests marked gpu, then the paper's question on both devices.

Everything goes into one small folder, ``results/gpu_gap`` by default:

- ``machine.json``: the machine, the versions, the commit, and the seconds that each step took;
- ``tests.txt``: what the tests marked gpu said;
- ``<study>.txt`` and ``<study>.json``: the verdict of each study as people and as scripts read it;
- ``runs/<study>``: its store, without the initial weights, which the same grid makes again.

Broken off, it goes on where it stopped. It needs neither Ray nor a network.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ablate.trial.nvml import all_gpus, driver_version, visible_gpus

ROOT = Path(__file__).resolve().parent.parent
GRIDS = (ROOT / "configs" / "gpu_gap.yaml", ROOT / "configs" / "gpu_gap_autoencoder.yaml")
ABLATE = (sys.executable, "-c", "from ablate.cli import main; main()")
NO_GPU = (
    "error: nvidia-smi lists no GPU here; nothing was run. Without one, the same path is rehearsed on the CPU by\n"
    + ("    pytest -m slow tests/benchmarks")
)


def main() -> int:
    """Run everything; return 0, or the first exit code that is not."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--results", type=Path, default=ROOT / "results" / "gpu_gap", help="Folder to write.")
    results = parser.parse_args().results.resolve()
    if not visible_gpus(os.environ):
        print(NO_GPU, file=sys.stderr)
        return 4
    results.mkdir(parents=True, exist_ok=True)
    pytest = (sys.executable, "-m", "pytest", "-m", "gpu", "-p", "no:cacheprovider")
    code, seconds = tee(pytest, results / "tests.txt")
    return study_all(GRIDS, results, {"tests": seconds}) or code


def study_all(grids: Sequence[Path], results: Path, seconds: dict[str, float]) -> int:
    """Launch each grid with the local launcher and write what came of it; return the first exit code that is not 0."""
    first = 0
    runs = results / "runs"
    for grid in grids:
        code, seconds[grid.stem] = tee(
            (*ABLATE, "launch", grid, "--local", "--runs", runs), results / f"{grid.stem}.txt"
        )
        first = first or code
        store = runs / grid.stem
        if (store / "spec.json").exists():
            as_json = subprocess.run((*ABLATE, "gap", store, "--json"), capture_output=True, text=True, check=False)
            (results / f"{grid.stem}.json").write_text(as_json.stdout)
            if code == 0:
                shutil.rmtree(store / "initial", ignore_errors=True)
        write_machine(results / "machine.json", seconds)
    return first


def write_machine(path: Path, seconds: dict[str, float]) -> None:
    """Describe the machine, the versions and the steps; torch is asked in a process of its own."""
    path.write_text(json.dumps({**machine(), "seconds": seconds}, indent=2) + "\n")


def machine() -> dict[str, Any]:
    """Return what this machine is and which versions ran."""
    from ablate.trial.provenance import machine_columns

    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        **{name: value for name, value in machine_columns().items() if name != "host"},
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(memory / 1e9, 1),
        "kernel": platform.release(),
        "gpus": [gpu.name for gpu in all_gpus()],
        "driver": driver_version(),
        **_torch_build(),
        "commit": _git("rev-parse", "HEAD"),
        "uncommitted": bool(_git("status", "--porcelain")),
    }


def _torch_build() -> dict[str, Any]:
    import torch

    cudnn = torch.backends.cudnn.version() if torch.version.cuda else None  # type: ignore[no-untyped-call]
    return {"cuda": torch.version.cuda, "cudnn": cudnn}


def _git(*words: str) -> str:
    if shutil.which("git") is None:
        return ""
    return subprocess.run(("git", "-C", ROOT, *words), capture_output=True, text=True, check=False).stdout.strip()


def tee(words: Sequence[str | Path], path: Path) -> tuple[int, float]:
    """Run a command, show what it prints and keep it in ``path``; return its exit code and the seconds it took."""
    began = time.monotonic()
    print(f"$ {' '.join(map(str, words[2:] if words[0] == sys.executable else words))}", flush=True)
    options: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with path.open("w") as kept, subprocess.Popen(list(map(str, words)), cwd=ROOT, **options) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            kept.write(line)
    return process.returncode, round(time.monotonic() - began, 1)


if __name__ == "__main__":
    sys.exit(main())
