from __future__ import annotations

import subprocess
import sys
import threading

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from ablate.errors import BadInput, StoreError
from ablate.record.reader import Run
from ablate.record.recorder import Recorder
from ablate.record.store import Store
from tests.record.conftest import make_grid, make_spec, run_trial

GIVEN = b"study: demo\n"


def fill(root, *specs):
    with Store.open(root, make_grid(), GIVEN) as store:
        for spec in specs:
            store.absorb(spec.trial_id, run_trial(store, spec))
            store.flush()


def test_by_path_or_bare_name(tmp_path, monkeypatch):
    fill(tmp_path / "runs" / "demo")
    monkeypatch.chdir(tmp_path)
    for name in ("demo", "runs/demo", tmp_path / "runs" / "demo"):
        assert Run(name).grid == make_grid()


def test_no_run_names_the_nearest(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput, match=r"demo: there is no run of this name\n    `ablate launch grid\.yaml` makes one"):
        Run("demo")
    fill(tmp_path / "runs" / "demo")
    fill(tmp_path / "runs" / "other")
    fill(tmp_path / "runs" / "demo.t7e719945518218c")  # a trial by itself
    with pytest.raises(
        BadInput,
        match=r"demi: there is no run of this name\n    did you mean 'runs/demo'\?\n"
        r"    runs here: runs/demo, runs/other$",
    ):
        Run("demi")
    with pytest.raises(BadInput, match=r"demos: there is no run of this name\n    did you mean 'runs/demo'\?"):
        Run(tmp_path / "runs" / "demos")
    with pytest.raises(BadInput, match=r"runs: is no run but holds some\n    runs here: runs/demo, runs/other$"):
        Run("runs")
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadInput, match=r"empty: is no run: it has no spec\.json"):
        Run("empty")


def test_an_empty_run_has_empty_tables(root):
    fill(root)
    run = Run(root)
    assert run.batches(["loss", "factor.lr"]).column_names == ["loss", "factor.lr"]
    assert [t.num_rows for t in (run.trials(), run.batches(), run.attempts(), run.audits())] == [0, 0, 0, 0]


def test_columns_and_filter(root):
    fill(root, make_spec("slow"), make_spec("fast"))
    run = Run(root)
    window = (ds.field("batch_index") >= 3) & (ds.field("factor.lr") == 0.1)
    assert run.batches(["arm", "batch_index"], window).to_pylist() == [
        {"arm": "fast", "batch_index": 3},
        {"arm": "slow", "batch_index": 3},
    ]
    with pytest.raises(ValueError, match="no column 'los'; did you mean 'loss'"):
        run.batches(["los"])


def test_audits(root):
    spec = make_spec()
    with Store.open(root, make_grid(), GIVEN) as store:
        with Recorder(store.paths, spec, 1) as recorder:
            for k in range(4):
                recorder.record(k, 1.0, 0.1, {})
            recorder.audit(
                batch_index=2, check="saved_tensors", verdict="overwritten", count=1, shape=[2, 3], near="conv"
            )
            with store.paths.audit_lines(spec.trial_id, 1).open("a") as torn:
                torn.write('{"batch_index": 3, "che')
            recorder.finish("done")
        store.absorb(spec.trial_id, 1)
    (row,) = Run(root).audits(filter=ds.field("verdict") == "overwritten").to_pylist()
    assert (row["arm"], row["attempt"], row["batch_index"], row["shape"], row["near"]) == ("fast", 1, 2, [2, 3], "conv")
    assert row["dtype"] is None


@pytest.fixture
def two_parts(root):
    """A run whose audits are in two parts, one of them as if an older version had written it: without two columns."""
    with Store.open(root, make_grid(), GIVEN) as store:
        for spec in (make_spec("slow"), make_spec("fast")):
            with Recorder(store.paths, spec, 1) as recorder:
                recorder.record(0, 1.0, 0.1, {})
                for near in ("conv", None, "last"):
                    recorder.audit(batch_index=0, check="saved_tensors", verdict="clean", count=1, near=near)
                recorder.finish("done")
            store.absorb(spec.trial_id, 1)
    (path,) = Run(root).paths.parts(Run(root).paths.audits)
    table = pq.ParquetFile(path).read()
    pq.write_table(table.slice(0, 2), path)
    pq.write_table(table.slice(2).drop_columns(["anchor", "detail"]), path.with_name("part-old.parquet"))
    return Run(root)


def test_audits_in_pieces_are_those_of_the_table(two_parts):
    columns = ["trial_id", "near", "anchor", "detail", "count", "factor.lr"]
    pieces = list(two_parts.audits_in_pieces(columns))
    kind = pa.dictionary(pa.int32(), pa.string())
    assert [piece.schema.field("near").type for piece in pieces] == [kind, kind]
    assert [row for piece in pieces for row in piece.to_pylist()] == two_parts.audits(columns).to_pylist()
    assert sum(piece.num_rows for piece in pieces) == 6
    with pytest.raises(ValueError, match="no column 'nea'; did you mean 'near'"):
        next(two_parts.audits_in_pieces(["nea"]))


def test_a_damaged_part_of_the_audits_is_named(two_parts):
    for path in two_parts.paths.parts(two_parts.paths.audits):
        data = path.read_bytes()
        path.write_bytes(data[:4] + bytes(len(data) // 4) + data[4 + len(data) // 4 :])
    with pytest.raises(StoreError, match=r"part-[0-9a-z]+\.parquet: cannot be read as Parquet"):
        list(two_parts.audits_in_pieces(["trial_id", "arm", "near", "check", "verdict"]))


def test_reading_while_a_launch_writes(root):
    """Whole trials only, never one twice, whatever moment the reader comes."""
    grid = make_grid(blocks=tuple(range(200)))
    Store.open(root, grid, GIVEN).close()
    over = threading.Event()
    seen = []

    def read() -> None:
        run = Run(root)
        while not over.is_set():
            indices = run.batches(["batch_index"])["batch_index"].to_pylist()
            seen.append(indices == [0, 1, 2, 3] * (len(indices) // 4))
            run.trials()

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for start in range(0, 30, 3):
            with Store.open(root, grid, GIVEN) as store:
                for block in range(start, start + 3):
                    spec = make_spec(block=block)
                    store.absorb(spec.trial_id, run_trial(store, spec))
                    store.flush()
    finally:
        over.set()
        reader.join()
    assert all(seen)
    assert len(seen) > 10
    assert Run(root).batches().num_rows == 120


def test_parts_that_keep_vanishing_are_reported(root, monkeypatch):
    fill(root, make_spec())

    def gone(path):
        raise FileNotFoundError(path)

    monkeypatch.setattr(pq, "read_metadata", gone)
    with pytest.raises(StoreError, match=r"batches: parts vanish while they are read"):
        Run(root).batches()


def test_a_damaged_part_is_named(root):
    fill(root, make_spec())
    (part,) = (root / "batches").iterdir()
    whole = part.read_bytes()
    part.write_bytes(whole[:-20])
    with pytest.raises(StoreError, match=rf"{part.name}: cannot be read as Parquet"):
        Run(root).batches()
    part.write_bytes(whole[:4] + bytes(len(whole) // 4) + whole[4 + len(whole) // 4 :])
    with pytest.raises(StoreError, match="batches: cannot be read as Parquet"):
        Run(root).batches()


def test_a_grid_of_another_ablate(root):
    fill(root)
    from ablate.record.spec_file import spec_hash

    (root / "spec.json").write_text(
        f'{{"schema_version": 1, "spec_hash": "{spec_hash("{}")}", "history": [], "grid": {{}}}}'
    )
    with pytest.raises(StoreError, match=r"holds no grid that this ablate understands \(Field required\)"):
        Run(root).grid  # noqa: B018


def test_record_loads_neither_torch_nor_ray():
    code = (
        "import sys, ablate.record.check, ablate.record.store, ablate.record.reader, ablate.record.recorder\n"
        "assert not {'torch', 'ray', 'pandas'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
