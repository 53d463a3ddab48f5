"""configs/cluster/install.sh, with stand-ins for Python, pip and nvidia-smi: what it would install."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PYTHON = """#!/bin/sh
case "$1" in
-c) exit $OLD_PYTHON;;
-m) mkdir -p "$3/bin"; printf '#!/bin/sh\\necho "$@" >> ../pip.log\\n' > "$3/bin/pip"; chmod +x "$3/bin/pip";;
esac
"""


class Node:
    def __init__(self, folder: Path) -> None:
        self.home = folder
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.program("python3", PYTHON)
        for name in ("constraints.txt", "pyproject.toml", "configs/cluster/install.sh"):
            target = folder / "ablate" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(REPOSITORY / name, target)

    def program(self, name: str, text: str) -> None:
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def install(self, **variables: str) -> tuple[int, list[str]]:
        """Run the script; return its code and the words of each pip install."""
        log = self.home / "pip.log"
        log.unlink(missing_ok=True)
        path = f"{self.bin}{os.pathsep}/usr/bin{os.pathsep}/bin"
        script = self.home / "ablate/configs/cluster/install.sh"
        env = {"HOME": str(self.home), "PATH": path, "OLD_PYTHON": "0", **variables}
        done = subprocess.run(["bash", script], env=env, capture_output=True, text=True)
        pins = "install --quiet --disable-pip-version-check --constraint constraints.txt "
        lines = log.read_text().splitlines() if log.exists() else []
        assert all(line.startswith(pins) for line in lines)
        return done.returncode, [line.removeprefix(pins) for line in lines]


@pytest.fixture
def node(tmp_path):
    if shutil.which("nvidia-smi", path="/usr/bin:/bin"):
        pytest.skip("this machine's own nvidia-smi would answer")
    return Node(tmp_path)


PACKAGE = "--editable .[video,cluster]"


def test_without_indexes_the_default_one_gives_torch(node):
    assert node.install() == (0, ["torch==2.13.0", PACKAGE])


def test_a_node_without_a_gpu_asks_the_index_of_cpu_builds(node):
    indexes = {"ABLATE_CPU_INDEX": "https://cpu", "ABLATE_CUDA_INDEX": "https://cuda"}
    assert node.install(**indexes) == (0, ["--extra-index-url https://cpu torch==2.13.0", PACKAGE])


def test_a_node_with_a_gpu_asks_the_index_of_cuda_builds(node):
    node.program("nvidia-smi", "#!/bin/sh\nexit 0\n")
    indexes = {"ABLATE_CPU_INDEX": "https://cpu", "ABLATE_CUDA_INDEX": "https://cuda"}
    assert node.install(**indexes) == (0, ["--extra-index-url https://cuda torch==2.13.0", PACKAGE])
    assert node.install(ABLATE_CPU_INDEX="https://cpu") == (0, ["torch==2.13.0", PACKAGE])


def test_it_installs_again_only_what_has_changed(node):
    assert node.install()[1]
    assert node.install() == (0, [])
    with (node.home / "ablate/constraints.txt").open("a") as constraints:
        constraints.write("one-more==1\n")
    assert node.install()[1]
    assert node.install() == (0, [])
    assert node.install(ABLATE_CPU_INDEX="https://cpu")[1]


def test_an_old_python_installs_nothing_and_fails(node):
    assert node.install(OLD_PYTHON="1") == (1, [])
