from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from ablate.errors import StoreError
from ablate.record import trial_table
from ablate.record.schema import factor_types
from ablate.record.trial_table import TrialTable

FACTORS = factor_types({"width": [8, 16]})


def end(trial_id: str, arm: str = "a", block: int = 0, **said: object) -> dict[str, object]:
    """Return what an attempt's end says of it."""
    known = {"trial_id": trial_id, "arm": arm, "block": block, "attempt": 1, "status": "done", "batches": 4}
    return {**known, "factors": {"width": 8}, "evaluate": {}, **said}


ENDS = (
    end("t3", arm="b", host="one"),
    end("t1", block=2, status="failed", failure_kind="memory", error="too much"),
    end("t2", evaluate={"accuracy": 0.5}),
    end("t0", block=2),
    end("t1", block=2, attempt=2, evaluate={"speed": 2.0}),
)


def test_rows_written_as_they_come_are_those_written_at_once(tmp_path):
    at_once = TrialTable(tmp_path / "at_once.parquet", FACTORS, {})
    by_and_by = TrialTable(tmp_path / "by_and_by.parquet", FACTORS, {})
    for one in ENDS:
        at_once.put(one)
        by_and_by.put(one)
        by_and_by.write()
    at_once.write()
    found, wanted = (pq.read_table(tmp_path / f"{name}.parquet") for name in ("by_and_by", "at_once"))
    assert found.equals(wanted)
    assert found["trial_id"].to_pylist() == ["t2", "t0", "t1", "t3"], "by arm, block and trial"
    told = {row["trial_id"]: row for row in found.to_pylist()}
    assert (told["t1"]["status"], told["t1"]["attempt"], told["t1"]["failures_infrastructure"]) == ("done", 2, 1)
    assert (told["t1"]["evaluate.speed"], told["t1"]["evaluate.accuracy"], told["t2"]["evaluate.accuracy"]) == (
        2.0,
        None,
        0.5,
    )


def test_a_table_goes_on_with_further_levels_of_another_type(tmp_path):
    path = tmp_path / "trials.parquet"
    first = TrialTable(path, FACTORS, {})
    first.put(ENDS[0])
    first.write()
    wider = TrialTable(path, factor_types({"width": [8, True]}), {})
    wider.put(end("t9", factors={"width": True}))
    wider.write()
    wider.put(end("t8", factors={"width": 8}))
    wider.write()
    rows = pq.read_table(path).to_pylist()
    assert {row["trial_id"]: row["factor.width"] for row in rows} == {"t3": "8", "t8": "8", "t9": "True"}


def test_a_write_that_failed_is_made_good_by_the_next(tmp_path, monkeypatch):
    table = TrialTable(tmp_path / "trials.parquet", FACTORS, {})
    table.put(ENDS[0])

    def full(*_: object) -> None:
        raise StoreError()

    with monkeypatch.context() as patched:
        patched.setattr(trial_table, "write_parquet", full)
        with pytest.raises(StoreError):
            table.write()
    table.put(ENDS[2])
    table.write()
    assert pq.read_table(tmp_path / "trials.parquet")["trial_id"].to_pylist() == ["t2", "t3"]


def test_a_write_turns_only_new_rows_into_columns(tmp_path, monkeypatch):
    table, turned = TrialTable(tmp_path / "trials.parquet", FACTORS, {}), []
    from_rows = trial_table.from_rows

    def counted(rows: list[dict[str, object]], schema: object) -> object:
        turned.append(len(rows))
        return from_rows(rows, schema)

    monkeypatch.setattr(trial_table, "from_rows", counted)
    for number in range(100):
        table.put(end(f"t{number}"))
        if number % 50 == 49:
            table.write()
    assert turned == [50, 50], "a launch would otherwise spend most of its time here in the end"
