"""Probes that were recorded before the grid asked for other ones are not made again, and that is said."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from ablate.design.trial_spec import CurvaturePlan
from ablate.launch.probing import looked_at_otherwise
from ablate.record.disk import write_aside
from ablate.record.store import Store
from tests.record.conftest import make_grid, make_spec, run_trial

SPEC = make_spec("fast")
THEN = CurvaturePlan(at=(0, 4), k=1)
EDGE = {"player": "all", "name": "lambda_max", "position": 0, "value": 1.0}


def recorded(root: Path, **columns: Any) -> Store:
    store = Store.open(root, make_grid(), b"study: demo\n")
    store.absorb(SPEC.trial_id, run_trial(store, SPEC))
    for batches in THEN.at:
        rows = [{"batches": batches, **EDGE, **columns}, {"batches": batches, **EDGE, "name": "loss", **columns}]
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        write_aside(store.paths.probe_lines(SPEC.trial_id, batches), lines.encode())
        assert store.take_probe(SPEC.trial_id, batches)
    store.flush()
    return store


@pytest.mark.parametrize(
    ("now", "changed"), [({"k": 3}, "k: 1 -> 3"), ({"k": 3, "surface": True}, "k: 1 -> 3, surface: false -> true")]
)
def test_what_changed_is_named_with_how_many_and_what_to_do(tmp_path: Path, now: dict[str, Any], changed: str) -> None:
    with recorded(tmp_path, plan=json.dumps(THEN.how)) as store:
        assert looked_at_otherwise(store, THEN.model_copy(update=now)) == (
            f"2 snapshots were looked at before the grid's `probes` changed ({changed}); if they are to be looked at "
            "again, delete the folder probes/ of the store, and run `ablate probe`"
        )


def test_what_it_says_to_delete_is_looked_at_again(tmp_path: Path) -> None:
    with recorded(tmp_path, plan=json.dumps(THEN.how)) as store:
        assert store.probed() == {(SPEC.trial_id, batches) for batches in THEN.at}
    shutil.rmtree(tmp_path / "probes")
    with Store.open(tmp_path, make_grid(), b"study: demo\n") as store:
        assert store.probed() == set()
        assert store.done() == {SPEC.trial_id}
        assert looked_at_otherwise(store, THEN.model_copy(update={"k": 3})) == ""


def test_other_snapshots_are_no_other_way_to_look(tmp_path: Path) -> None:
    with recorded(tmp_path, plan=json.dumps(THEN.how)) as store:
        assert looked_at_otherwise(store, THEN.model_copy(update={"at": (0, 2, 4)})) == ""


def test_of_rows_from_before_it_was_recorded_nothing_is_said(tmp_path: Path) -> None:
    with recorded(tmp_path) as store:
        assert looked_at_otherwise(store, THEN.model_copy(update={"k": 3})) == ""
