"""A user's own trainable, beside the grid, on a cluster's nodes: it runs from where Ray unpacked it there."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest

from tests.conftest import whole

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

MODEL = """
    import json, os, socket, sys
    from pathlib import Path

    import torch
    from torch import nn

    from parts.layer import width

    def train(config, ctx):
        model = ctx.initialise(nn.Linear(width(), 1))
        beside = Path("data", "numbers.txt").read_text().split()
        seen = {
            "file": __file__, "parts": sys.modules["parts.layer"].__file__, "cwd": os.getcwd(),
            "there": [str(path) for path in Path().rglob("*.*") if path.is_file() and path.suffix != ".pyc"],
        }
        Path(config["leave"], f"{socket.gethostname()}-{os.getpid()}.json").write_text(json.dumps(seen))
        for index in range(ctx.batches):
            x = torch.full((1, width()), float(beside[index]))
            ctx.batch(model(x).square().mean())
"""


@pytest.fixture
def own(place):
    """A study of the user's own: model, a package beside it, data, and what no node needs."""
    folder = place.folder
    for name in ("parts", "data", "left"):
        (folder / name).mkdir()
    (folder / "model.py").write_text(textwrap.dedent(MODEL))
    (folder / "parts" / "__init__.py").write_text("")
    (folder / "parts" / "layer.py").write_text("def width():\n    return 3\n")
    (folder / "data" / "numbers.txt").write_text("1 2 3 4 5 6")
    (folder / "data" / "huge.bin").write_text("not really")
    (folder / ".gitignore").write_text("*.bin\n/left\n")
    place.grid(
        "arms: {one: {resources: {CPU: 1, east: 1}}, two: {resources: {CPU: 1, west: 1}}}\n",
        trainable="model:train",
        settings=f"{{leave: {json.dumps(str(folder / 'left'))}}}",
        blocks=1,
    )
    return place


def test_the_trainable_its_package_and_its_data_come_from_the_nodes_own_copy(own, two_nodes):
    env = {"RAY_AUTH_MODE": "disabled"}
    done = own.finish(own.start("launch", "grid.yaml", "--address", two_nodes.address, env=env), 600)
    assert done.code == 0, done.text
    assert whole(own.root()) == 2
    seen = {path.name.partition("-")[0]: json.loads(path.read_text()) for path in (own.folder / "left").iterdir()}
    homes = {node.name: node.folder for node in two_nodes.nodes}
    for host in ("east", "west"):
        there = Path(seen[host]["cwd"])
        assert there.is_relative_to(homes[host])  # Ray's own folder on that node
        assert Path(seen[host]["file"]) == there / "model.py"
        assert Path(seen[host]["parts"]) == there / "parts" / "layer.py"
        sent = {".gitignore", "data/numbers.txt", "doubles.py", "grid.yaml", "model.py"}
        assert set(seen[host]["there"]) == sent | {"parts/__init__.py", "parts/layer.py"}
    assert set(seen) == {"east", "west"}
