from __future__ import annotations

import pyarrow as pa
import pytest

from ablate.record.schema import as_level, conform, factor_types, trials_schema, unify
from ablate.record.trial_table import TrialTable


@pytest.mark.parametrize(
    ("levels", "kind"),
    [
        ([True, False], pa.bool_()),
        ([1, 2], pa.int64()),
        ([1, 0.5], pa.float64()),
        ([0.5], pa.float64()),
        (["a"], pa.string()),
        ([1, "a"], pa.string()),
        ([True, 1], pa.string()),
    ],
)
def test_factors_are_typed_by_their_levels(levels, kind):
    types = factor_types({"f": levels})
    assert types == {"f": kind}
    column = pa.array([as_level(level, kind) for level in levels], kind)
    assert len(column) == len(levels)


def test_whole_and_broken_numbers_meet_in_float64():
    one, two = pa.table({"f": [1, 2]}), pa.table({"f": [0.5], "g": ["x"]})
    schema = unify([one.schema, two.schema])
    assert conform(one, schema).to_pylist() == [{"f": 1.0, "g": None}, {"f": 2.0, "g": None}]


def test_trials_survive_a_round_trip(tmp_path):
    end = {
        "trial_id": "t1",
        "arm": "fast",
        "block": 3,
        "attempt": 1,
        "status": "done",
        "batches": 4,
        "factors": {"lr": 1},
        "evaluate": {"acc": float("nan")},
        "started_utc": "2026-01-02T03:04:05.678901+00:00",
        "onednn": False,
        "peak_memory_bytes": 2**40,
    }
    path = tmp_path / "trials.parquet"
    factors = factor_types({"lr": [1, 0.5]})
    table = TrialTable(path, factors, {})
    table.put(end)
    table.write()
    again = TrialTable(path, factors, {})
    assert repr(again.rows) == repr(
        {"t1": {**dict.fromkeys(trials_schema(factors, ["acc"]).names), **again.rows["t1"]}}
    )
    row = again.rows["t1"]
    assert row["started_utc"].isoformat() == end["started_utc"]
    assert (row["factor.lr"], row["onednn"], row["peak_memory_bytes"]) == (1.0, False, 2**40)
    assert repr(row["evaluate.acc"]) == "nan"
    again.write()
    assert repr(TrialTable(path, factors, {}).rows) == repr(again.rows)
