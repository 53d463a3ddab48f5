from __future__ import annotations

import textwrap

import pytest

from ablate.design.grid import load_grid
from ablate.errors import BadInput

MINIMAL = """\
study: s
question: Does it matter?
trainable: pkg.mod:Thing
blocks: 6
batches: 100
"""


@pytest.fixture
def minimal():
    """The five keys every grid has, in lines 1 to 5."""
    return MINIMAL


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Load a grid from text; the file is called grid.yaml in every message."""
    monkeypatch.chdir(tmp_path)

    def load(text, minimal=MINIMAL):
        (tmp_path / "grid.yaml").write_text(minimal + textwrap.dedent(text), encoding="utf-8")
        return load_grid("grid.yaml")

    return load


@pytest.fixture
def complaints(load):
    """Load a grid that is wrong; return its problems as text."""

    def complaints(text, minimal=MINIMAL):
        with pytest.raises(BadInput) as caught:
            load(text, minimal)
        assert caught.value.exit_code == 2
        return [str(problem) for problem in caught.value.problems]

    return complaints
