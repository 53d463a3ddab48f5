"""Commands with an output look at its place before they do anything else."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from ablate.cli import app
from ablate.errors import BadInput
from ablate.record.store import Store
from tests.record.conftest import make_grid, make_spec, run_trial


def never(*_: object, **__: object) -> None:
    pytest.fail("the work was begun")


@pytest.mark.parametrize(
    ("work", "arguments"),
    [
        ("analysis.report.gap", ["report", "demo", "-o", "no/page.html"]),
        ("analysis.show.showing", ["show", "demo", "-o", "no/picture.png"]),
        ("ablate.record.reader.Run.batches", ["export", "demo", "-o", "no/demo-csv"]),
        ("ablate.launch.audit.audit", ["audit", "grid.yaml", "--save", "no/audit.safetensors"]),
    ],
)
def test_a_missing_folder_is_told_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, work: str, arguments: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with Store.open(tmp_path / "runs" / "demo", make_grid(), b"study: demo\n") as store:
        spec = make_spec()
        store.absorb(spec.trial_id, run_trial(store, spec))
    (tmp_path / "grid.yaml").write_text("study: s\nquestion: Q?\ntrainable: mine:train\nblocks: 1\nbatches: 2\n")
    (tmp_path / "mine.py").write_text("def train(config, ctx): ...\n")
    monkeypatch.setattr(work, never)
    done = CliRunner().invoke(app, arguments)
    assert isinstance(done.exception, BadInput), done.output
    option = arguments[-2] if arguments[-2].startswith("--") else "--output"
    assert str(done.exception).startswith(f"{option} {arguments[-1]}: {tmp_path}/no is no folder")
