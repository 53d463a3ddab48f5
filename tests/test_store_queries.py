"""The README's lines for other tools read a store and agree with the reader; its other commands about a run work."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests" / "analysis"))

from synthetic import Told, arm, block_losses, grid, write_run  # noqa: E402

README = (ROOT / "README.md").read_text()
(LINES,) = re.findall(r"```py\n(.*?)```", README, re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("queries")
    spec = grid({"first": arm(3), "other": arm(3, way=2)}, factors={"lr": (0.1, 0.2)})
    write_run(
        folder / "runs" / "my_first_study", spec, lambda t: Told(block_losses(t.block) * (1 + (t.arm == "other")))
    )
    return folder


@pytest.mark.parametrize("line", LINES.strip().splitlines(), ids=lambda line: line.partition(".")[0])
def test_a_line_for_another_tool(folder, line):
    code = (
        f"import {line.partition('.')[0]}\nfound = {line}\n"
        "rows = found.fetchall() if hasattr(found, 'fetchall') else found.rows() if hasattr(found, 'rows') "
        "else list(found.items())\nprint(sorted((arm, float(loss)) for arm, loss in rows))"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    mean = float(np.mean([block_losses(block) for block in range(3)]))
    (first, one), (other, two) = eval(done.stdout)
    assert (first, other) == ("first", "other")
    assert (one, two) == pytest.approx((mean, 2 * mean), rel=1e-12)


def test_the_commands_that_the_readme_shows(folder):
    ablate = Path(sys.executable).with_name("ablate")
    environment = {key: value for key, value in os.environ.items() if key != "WANDB_MODE"}
    for words in re.findall(r"`ablate ((?:export|report) my_first_study[^`]*)`", README):
        done = subprocess.run(
            [ablate, *words.split()], cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    assert (folder / "runs" / "my_first_study" / "report.html").exists()
    (command,) = re.findall(r"`ablate (import [^`]*)`", README)
    losses = "".join(f"{a},{b},{k},{0.1 + k}\n" for a in "xy" for b in range(2) for k in range(3))
    (folder / "losses.csv").write_text("arm,block,batch_index,loss\n" + losses)
    done = subprocess.run([ablate, *command.split()], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
