from __future__ import annotations

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from ablate.record import parts
from ablate.record.parts import Entry, PartedData, live
from ablate.record.paths import AttemptKey, StorePaths
from ablate.record.schema import batches_schema


@pytest.fixture
def paths(tmp_path):
    paths = StorePaths(tmp_path)
    paths.batches.mkdir()
    return paths


def open_data(paths: StorePaths) -> PartedData:
    return PartedData(paths, paths.batches, {b"ablate.schema_version": b"1"})


def rows(arm: str, block: int, count: int, *metrics: str) -> tuple[Entry, object]:
    trial_id = f"t{arm}{block}"
    schema = batches_schema({}, metrics)
    table = pa.Table.from_pylist(
        [
            {"trial_id": trial_id, "arm": arm, "block": block, "batch_index": k, "loss": 1.0 * k}
            | {f"metric.{name}": 2.0 for name in metrics}
            for k in range(count)
        ],
        schema=schema,
    )
    return Entry(arm, block, trial_id, 1, count), table


def add(data: PartedData, *attempts: tuple[Entry, object]) -> None:
    data.add(dict(attempts))


def read(paths: StorePaths) -> pa.Table:
    return pa.concat_tables([pq.ParquetFile(p).read() for p in paths.parts(paths.batches)], promote_options="default")


def test_merge_sorts_and_keeps_every_row(paths):
    data = open_data(paths)
    expected = []
    for block in (2, 0, 1):
        for arm in ("b", "a"):
            add(data, rows(arm, block, 3))
            expected += [(arm, block, k) for k in range(3)]
    assert len(paths.parts(paths.batches)) == 6
    data.merge()
    (path,) = paths.parts(paths.batches)
    table = pq.ParquetFile(path).read()
    found = list(zip(*(table[n].to_pylist() for n in ("arm", "block", "batch_index")), strict=True))
    assert found == sorted(expected)
    data.merge()  # nothing to do
    assert paths.parts(paths.batches) == [path]


def test_row_groups_hold_one_long_trial_or_several_whole_short_ones(paths):
    data = open_data(paths)
    add(data, *[rows("a", block, n) for block, n in enumerate((100, 200, 1024, 300, 20_000, 50, 900, 7500))])
    (path,) = paths.parts(paths.batches)
    metadata = pq.read_metadata(path)
    groups = [metadata.row_group(g).num_rows for g in range(metadata.num_row_groups)]
    assert groups == [300, 1024, 300, 6667, 6667, 6666, 950, 7500]


def test_outcome_windows_are_pruned_by_statistics(paths):
    data = open_data(paths)
    add(data, rows("a", 0, 20_000), rows("b", 0, 20_000))
    (path,) = paths.parts(paths.batches)
    where = (ds.field("batch_index") >= 19_950) & (ds.field("arm") == "b")
    (fragment,) = ds.dataset([str(path)], format="parquet").get_fragments()
    assert [len(f.row_groups) for f in [fragment, fragment.subset(where)]] == [6, 1]


def test_metrics_that_differ_are_null_where_absent(paths):
    data = open_data(paths)
    add(data, rows("a", 0, 2, "x"))
    add(data, rows("b", 0, 2, "y"))
    data.merge()
    table = read(paths)
    assert table["metric.x"].to_pylist() == [2.0, 2.0, None, None]
    assert table["metric.y"].to_pylist() == [None, None, 2.0, 2.0]


def test_adding_again_changes_nothing(paths):
    data = open_data(paths)
    add(data, rows("a", 0, 2))
    add(data, rows("a", 0, 2), rows("b", 0, 2))
    add(open_data(paths), rows("a", 0, 2), rows("b", 0, 2))
    assert read(paths).num_rows == 4
    assert open_data(paths).keys == {AttemptKey("ta0", 1), AttemptKey("tb0", 1)}


def test_superseded_parts_do_not_count_and_are_healed(paths):
    data = open_data(paths)
    add(data, rows("a", 0, 2))
    add(data, rows("b", 0, 2))
    old = {path: path.read_bytes() for path in paths.parts(paths.batches)}
    data.merge()
    for path, content in old.items():
        path.write_bytes(content)  # as after a crash before they were unlinked
    all_parts = [parts.Part.read(path) for path in paths.parts(paths.batches)]
    assert len(all_parts) == 3
    assert sum(entry.rows for part in live(all_parts) for entry in part.entries) == 4
    open_data(paths)
    assert read(paths).num_rows == 4


def test_drop_and_read(paths):
    data = open_data(paths)
    add(data, rows("a", 0, 2), rows("b", 0, 3))
    add(data, rows("c", 0, 4))
    (entry,) = data.read({AttemptKey("tb0", 1)})
    assert entry.rows == 3
    data.drop({AttemptKey("tb0", 1), AttemptKey("tc0", 1)})
    assert read(paths)["trial_id"].to_pylist() == ["ta0", "ta0"]
    assert open_data(paths).keys == {AttemptKey("ta0", 1)}


def test_an_attempt_without_rows_is_remembered(paths):
    data = open_data(paths)
    add(data, rows("a", 0, 0))
    add(data, rows("b", 0, 1))
    data.merge()
    assert open_data(paths).keys == {AttemptKey("ta0", 1), AttemptKey("tb0", 1)}
    assert {entry.rows for entry in data.read(data.keys)} == {0, 1}


def test_parts_never_grow_many_and_large_ones_stay(paths, monkeypatch):
    monkeypatch.setattr(parts, "MOST_PARTS", 4)
    data = open_data(paths)
    for block in range(12):
        add(data, rows("a", block, 1))
        assert len(paths.parts(paths.batches)) <= 4
    before = paths.parts(paths.batches)
    monkeypatch.setattr(parts, "MERGE_BELOW_BYTES", 1)
    data.merge()
    assert paths.parts(paths.batches) == before


def test_a_row_costs_few_bytes(paths):
    """7.6 bytes with float32 losses and real durations were measured; 20 is the promise."""
    data = open_data(paths)
    add(data, rows("a", 0, 5000))
    (path,) = paths.parts(paths.batches)
    assert path.stat().st_size < 20 * 5000


def test_any_reader_sees_every_column(paths):
    add(open_data(paths), rows("a", 0, 2))
    assert ds.dataset(str(paths.batches)).to_table().column_names == batches_schema({}).names


def test_what_was_merged_is_not_rewritten_whenever_there_are_many_parts_again(paths, monkeypatch):
    monkeypatch.setattr(parts, "MOST_PARTS", 8)
    data, written = open_data(paths), []
    write = parts.write_parquet
    monkeypatch.setattr(parts, "write_parquet", lambda *given: [written.append(given[0]), write(*given)])
    rewritten = 0
    for block in range(128):
        add(data, rows("a", block, 4))
        if len(written) > 1:
            rewritten += sum(pq.read_metadata(path).num_rows for path in written[1:])
        assert len(paths.parts(paths.batches)) <= 8
        written.clear()
    assert rewritten <= 128 * 4 * 7  # a row at most once for each doubling; merging all parts each time is beyond it
    data.merge()
    assert read(paths).num_rows == 128 * 4
    assert len(data.keys) == 128
