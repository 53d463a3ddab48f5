"""``ablate saddle`` from the command line: the answer first, JSON that parses, and words for a run without probes."""

import json

import pytest

from ablate.cli import app
from ablate.design.cross import trials
from ablate.errors import BadInput
from ablate.exit_codes import exit_code
from ablate.record.disk import write_aside
from ablate.record.store import Store
from tests.record.conftest import make_grid, run_trial
from tests.record.test_probe_rows import GIVEN, found

SPEC = next(iter(trials(make_grid())))


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A run of one trial, found by its bare name from where the command is given."""
    monkeypatch.chdir(tmp_path)
    root = tmp_path / "runs" / "demo"
    with Store.open(root, make_grid(), GIVEN) as store:
        store.absorb(SPEC.trial_id, run_trial(store, SPEC))
    return root


def test_a_run_without_probes_is_bad_input_and_is_told_how_to_get_them(root, capsys):
    with pytest.raises(BadInput) as raised:
        app(["saddle", "demo"], standalone_mode=False)
    assert exit_code(raised.value) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("error: runs/demo: holds no probes of the curvature")
    assert "probes: {curvature: {at: [0, 50, last]}}" in said.err


def test_the_answer_comes_first_and_json_parses(root, capsys):
    with Store.open(root, make_grid(), GIVEN) as store:
        lines = "".join(json.dumps(row) + "\n" for row in found(4))
        write_aside(store.paths.probe_lines(SPEC.trial_id, 4), lines.encode())
        assert store.take_probe(SPEC.trial_id, 4)
    app(["saddle", "demo"], standalone_mode=False)
    assert capsys.readouterr().out.startswith("NOTHING TO COMPARE: the grid has no contrast of its own.")
    app(["saddle", "demo", "--json"], standalone_mode=False)
    parsed = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert parsed["answer"]["word"] == "NOTHING TO COMPARE"
    assert parsed["courses"][0]["kinds"]["near a saddle"] == 1
