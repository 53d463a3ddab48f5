"""Reading by attempt gives what reading the whole and looking for the trial gives, whatever the parts look like."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from ablate.errors import StoreError
from ablate.record import reader
from ablate.record.open_part import OpenPart
from ablate.record.part import Part
from ablate.record.parts import PartedData
from ablate.record.reader import Run
from ablate.record.store import Store
from tests.record.conftest import make_grid
from tests.record.test_parts import rows

COLUMNS = ["batch_index", "loss", "metric.m"]


@pytest.fixture
def run(root):
    """Three parts: long trials with groups of their own and short ones that share; one part has another metric."""
    grid = make_grid(factors={})
    Store.open(root, grid, b"study: demo\n").close()
    run = Run(root)
    for some in ([("a", 0, 9000, "m"), ("b", 0, 100, "m")], [("a", 1, 300, "m"), ("b", 1, 40, "m"), ("c", 1, 5, "m")]):
        PartedData(run.paths, run.paths.batches, {}).add(dict(rows(*one) for one in some))
    PartedData(run.paths, run.paths.batches, {}).add(dict([rows("c", 0, 20_000), rows("c", 2, 1)]))
    assert len(run.paths.parts(run.paths.batches)) == 3
    return run


def searched(run: Run, trial_id: str, last: int | None = None) -> pa.Table:
    table = run.batches(["trial_id", *COLUMNS])
    own = table.filter(pc.equal(table["trial_id"], trial_id)).select(COLUMNS)
    return own if last is None else own.slice(max(0, own.num_rows - last))


@pytest.mark.parametrize("last", [None, 1, 50, 8000])
@pytest.mark.parametrize("at_once", [1, 10_000, 10**9])
def test_every_trial_has_the_rows_that_a_search_finds(run, monkeypatch, last, at_once):
    monkeypatch.setattr(reader, "_ROWS_AT_ONCE", at_once)
    groups = [["ta0", "tb0", "tc0"], [], ["nobody"], ["tc1", "ta1", "tb1"], ["tc2"]]
    found = list(run.batches_of(groups, COLUMNS, last))
    assert [sorted(one) for one in found] == [["ta0", "tb0", "tc0"], [], [], ["ta1", "tb1", "tc1"], ["tc2"]]
    for trial_id, table in (pair for one in found for pair in one.items()):
        assert table.combine_chunks() == searched(run, trial_id, last).combine_chunks()


def test_a_trial_in_several_parts_has_all_its_rows(run):
    (path,) = (p for p in run.paths.parts(run.paths.batches) if "tc2" in {e.trial_id for e in Part.read(p).entries})
    path.with_name("part-copy.parquet").write_bytes(path.read_bytes())
    (found,) = run.batches_of([["tc2"]], ["batch_index"])
    assert found["tc2"]["batch_index"].to_pylist() == [0, 0]


def test_a_part_that_was_rewritten_by_hand_is_read_by_its_rows(run):
    before = {i: searched(run, i) for i in ("ta0", "tb0", "tc0", "tc1")}
    for path in run.paths.parts(run.paths.batches):
        table = pq.ParquetFile(path).read().replace_schema_metadata(None)
        pq.write_table(table, path, row_group_size=777)
        assert not Part.read(path).entries
    (found,) = Run(run.paths.root).batches_of([before], COLUMNS)  # a run keeps what the parts said of themselves
    assert {i: table.combine_chunks() for i, table in found.items()} == {
        i: t.combine_chunks() for i, t in before.items()
    }


def test_only_row_groups_with_wanted_rows_and_wanted_columns_are_read(run, monkeypatch):
    asked = []
    read = OpenPart.read

    def watched(self, groups, columns):
        asked.append((list(groups), list(columns)))
        return read(self, groups, columns)

    monkeypatch.setattr(OpenPart, "read", watched)
    list(run.batches_of([["tc0"]], ["loss"], last=10))
    assert asked == [([2], ["loss"])]  # 20,000 rows are three groups


def test_numbers_that_the_statistics_say_are_not_read(run, monkeypatch):
    before = {i: searched(run, i) for i in ("tc0", "tc2")}
    asked = []
    read = OpenPart.read
    monkeypatch.setattr(OpenPart, "read", lambda *args: asked.append(args[2]) or read(*args))
    (found,) = run.batches_of([before], COLUMNS)
    assert asked == [["loss", "metric.m"]]
    assert {i: table.combine_chunks() for i, table in found.items()} == {
        i: t.combine_chunks() for i, t in before.items()
    }


@pytest.mark.parametrize(
    "numbers",
    [
        lambda n: np.arange(n) + 1,
        lambda n: np.r_[0 : n - 1, n],
        lambda n: np.r_[np.arange(n // 2), np.arange(n // 2, n) + 1] - 1,
        lambda n: pa.array([None, *range(1, n)]),
    ],
    ids=["from 1", "a gap at the end", "from -1 and a gap", "a null"],
)
def test_numbers_that_the_statistics_do_not_say_are_read(root, numbers):
    Store.open(root, make_grid(factors={}), b"study: demo\n").close()
    run = Run(root)
    entry, table = rows("a", 0, 5000)
    at = table.schema.get_field_index("batch_index")
    table = table.set_column(at, pa.field("batch_index", pa.int64()), pa.array(numbers(5000)))
    PartedData(run.paths, run.paths.batches, {}).add({entry: table})
    (found,) = run.batches_of([["ta0"]], ["batch_index"], last=4999)
    assert found["ta0"]["batch_index"].to_pylist() == pa.array(numbers(5000)).to_pylist()[1:]


def test_what_is_stored_tells_equal_rows_from_others(root):
    Store.open(root, make_grid(factors={}), b"study: demo\n").close()
    run = Run(root)
    tables = dict(rows(arm, 0, 20_000, "m") for arm in "abcd")
    entries = list(tables)
    at = tables[entries[0]].schema.get_field_index("content_hash")
    hashes = {0: [1, None, *range(19_998)], 1: [1, None, *range(19_998)], 2: [1, 5, *range(19_998)], 3: [None] * 20_000}
    tables = {
        entry: tables[entry].set_column(at, "content_hash", pa.array(hashes[k], pa.uint64()))
        for k, entry in enumerate(entries)
    }
    PartedData(run.paths, run.paths.batches, {}).add(dict(list(tables.items())[::2]))
    PartedData(run.paths, run.paths.batches, {}).add(dict(list(tables.items())[1::2]))
    found = run.stored([*(entry.trial_id for entry in entries), "nobody"], ["loss", "content_hash"])
    loss, content = zip(*(found[entry.trial_id] for entry in entries), strict=True)
    assert len(set(loss)) == 1
    assert content[0] == content[1]
    assert len(set(content)) == 3
    assert [one.values for one in content] == [19_999, 19_999, 20_000, 0]


def test_of_rows_that_share_row_groups_or_columns_that_are_not_there_nothing_is_told(run):
    assert set(run.stored(["ta0", "tb1", "tc1", "tc0"], ["loss"])) == {"ta0", "tc0"}
    assert set(run.stored(["ta0", "tc0"], ["metric.m"])) == {"ta0"}
    (path,) = (p for p in run.paths.parts(run.paths.batches) if "tc0" in {e.trial_id for e in Part.read(p).entries})
    path.with_name("part-copy.parquet").write_bytes(path.read_bytes())
    assert run.stored(["tc0"], ["loss"]) == {}


def test_a_part_whose_numbers_have_no_statistics_is_read(run):
    for path in run.paths.parts(run.paths.batches):
        table = pq.ParquetFile(path).read()
        pq.write_table(table, path, row_group_size=777, write_statistics=False)
        assert Part.read(path).rows == table.num_rows
    (found,) = Run(run.paths.root).batches_of([["tc0"]], COLUMNS)
    assert found["tc0"].combine_chunks() == searched(run, "tc0").combine_chunks()


def test_one_view_is_read_although_its_parts_are_merged_meanwhile(run):
    found = run.batches_of([["ta0"], ["tb1"]], ["loss"])
    first = next(found)
    PartedData(run.paths, run.paths.batches, {}).merge()
    assert len(run.paths.parts(run.paths.batches)) == 1
    assert (first["ta0"].num_rows, next(found)["tb1"].num_rows) == (9000, 40)


def test_an_unknown_column_names_the_nearest(run):
    with pytest.raises(ValueError, match="no column 'los'; did you mean 'loss'"):
        list(run.batches_of([["ta0"]], ["los"]))


def test_a_damaged_part_is_named(run):
    for path in run.paths.parts(run.paths.batches):
        data = path.read_bytes()
        path.write_bytes(data[:4] + bytes(len(data) // 4) + data[4 + len(data) // 4 :])
    with pytest.raises(StoreError, match=r"part-[0-9a-f]+\.parquet: cannot be read as Parquet"):
        list(run.batches_of([["ta0"], ["tc0"], ["tb1"]], ["batch_index"]))


def test_the_columns_of_batches_are_those_of_all_parts(run):
    assert run.columns() == run.batches().column_names
