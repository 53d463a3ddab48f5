"""Exports are lossless: what is read back has every bit of what the store holds, or nothing is left of it."""

import builtins
import errno
import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from probing import snapshot, write_probes
from synthetic import Told, arm, block_losses, clean, generator, grid, overwritten, write_run

import analysis.export_csv
from ablate.errors import BadInput, StoreError
from analysis.bits import first_difference, odd_nans, with_bits
from analysis.csv_table import read_table, write_table
from analysis.export import export
from analysis.export_csv import export_csv, read_csv_export
from analysis.export_wandb import export_wandb, table_of

ABLATE = Path(sys.executable).with_name("ablate")
NAN = np.array([0x7FF8000000000000, 0xFFF8000000000000, 0x7FF0000000000001, 0x7FF8DEADBEEF0001], np.uint64).view("f8")


def tell(trial):
    losses = block_losses(trial.block)
    losses[:8] = [-0.0, 5e-324, 1.7976931348623157e308, math.inf, -math.inf, *NAN[:3]]
    audits = [clean(0), *overwritten(1, 2), {"batch_index": 2, "check": "x", "verdict": 'a\n"b",ü', "shape": []}]
    sketches = {-1: generator("sketch", trial.block).standard_normal(256), 9: None}
    return Told(losses, audits=audits, sketches=sketches, metrics={"odd": np.resize(NAN, 60)}, evaluate={"held": 0.1},
                hashes={"wall_s": 1 / 3, "onednn": trial.block == 0, "env": '{"A": ""}'})  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    spec = grid({"a": arm(2), "b": arm(2, way=2)}, factors={"lr": (0.1, 0.2), "flag": (True, False)})
    return write_run(tmp_path_factory.mktemp("räk 'n") / "run", spec, tell)


def data_sets(run):
    return {
        "batches": run.batches(),
        "trials": run.trials(),
        "audits": run.audits(),
        "artifacts": run.artifacts(),
        "sketches": run.sketches(),
        "probes": run.probes(),
        "attempts": run.attempts(),
    }


def test_a_csv_export_reads_back_bit_for_bit(run, tmp_path):
    rows = export_csv(run, tmp_path / "out")
    for name, table in data_sets(run).items():
        assert first_difference(table, read_csv_export(tmp_path / "out", name)) == ""
        assert rows[name] == table.num_rows
    assert rows["batches"] == 16 * 60
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        *(f"{name}.csv" for name in ("batches", "trials", "audits", "artifacts", "sketches", "probes", "attempts")),
        *("schema.json", "spec.json", "grid.yaml"),
    }
    sidecar = json.loads((tmp_path / "out" / "schema.json").read_text())
    assert (sidecar["format"], sidecar["study"], sidecar["spec_hash"]) == ("ablate csv 1", "synthetic", run.spec.hash)
    assert {"name": "factor.lr", "type": "double"} in sidecar["data_sets"]["batches"]["columns"]


def test_probes_read_back_bit_for_bit(tmp_path):
    """Lists, text and numbers that are not finite, with nothing where a column says nothing."""
    spec = grid({"a": arm(1)})
    write_run(tmp_path / "run", spec, lambda trial: Told(block_losses(0)))
    run = write_probes(tmp_path / "run", spec, lambda trial: [*snapshot(0), *snapshot(60, kind='a, "b"\n')])
    assert export_csv(run, tmp_path / "out")["probes"] == run.probes().num_rows > 0
    assert first_difference(run.probes(), read_csv_export(tmp_path / "out", "probes")) == ""


def test_artifacts_go_along_as_they_are(tmp_path):
    run = write_run(tmp_path / "run", grid({"a": arm(1)}), lambda trial: Told(block_losses(0)))
    np.savez(run.paths.artifact_files / "t0-1-0.npz", x=np.arange(3))
    export_csv(run, tmp_path / "out")
    copied = tmp_path / "out" / "artifact_files" / "t0-1-0.npz"
    assert copied.read_bytes() == (run.paths.artifact_files / "t0-1-0.npz").read_bytes()


def test_other_tools_read_the_csv(run, tmp_path):
    export_csv(run, tmp_path / "out")
    frame = pl.read_csv(tmp_path / "out" / "batches.csv")
    stored = run.batches().column("loss").to_numpy()
    finite = np.isfinite(stored)
    assert np.array_equal(
        frame["loss"].cast(pl.Float64).to_numpy()[finite].view(np.uint64), stored[finite].view(np.uint64)
    )


FLOATS = hnp.arrays(np.uint64, st.integers(0, 30)).map(lambda bits: bits.view(np.float64))
TEXTS = st.lists(st.none() | st.text(st.characters(exclude_characters="\r\0", exclude_categories=["Cs"]), max_size=9))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(floats=FLOATS, singles=FLOATS, texts=TEXTS)
def test_any_bits_and_any_text_survive(tmp_path, floats, singles, texts):
    single = singles.view(np.uint32).view(np.float32)
    for column in (pa.array(floats), pa.array(single), pa.array(texts, pa.string())):
        table = pa.table({"other": pa.array(range(len(column)), pa.int64()), 'a "name", ü': column})
        sidecar = write_table(table, tmp_path / "t.csv")
        assert first_difference(table, read_table(tmp_path / "t.csv", sidecar)) == ""


def test_every_type_survives_with_nulls(tmp_path):
    table = pa.table(
        {
            "u": pa.array([2**64 - 1, None, 0], pa.uint64()),
            "i": pa.array([-(2**63), 2**63 - 1, None], pa.int64()),
            "t": pa.array([0, None, -1], pa.timestamp("us", tz="UTC")),
            "l": pa.array([None, [], [1, -2]], pa.list_(pa.int64())),
            "b": pa.array([True, None, False]),
            "s": pa.array(["", None, "nan"]),
            "f": pa.array([None, math.nan, 1.5], from_pandas=False),
        }
    )
    sidecar = write_table(table, tmp_path / "t.csv")
    read = read_table(tmp_path / "t.csv", sidecar)
    assert first_difference(table, read) == ""
    assert read["f"].null_count == 1


def test_a_column_of_another_type_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no text is known for columns of type int8"):
        write_table(pa.table({"x": pa.array([1], pa.int8())}), tmp_path / "t.csv")


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (pa.table({"x": pa.array([1.0, -0.0])}), "column 'x', row 1: -0.0, not 0.0"),
        (pa.table({"x": pa.array([1.0, None])}), "column 'x', row 1: None, not 0.0"),
        (pa.table({"x": pa.array([1.0])}), "1 rows, not 2"),
        (pa.table({"y": pa.array([1.0, 0.0])}), "columns ['y']"),
        (pa.table({"x": pa.array([1, 0])}), "[DataType(int64)], not ['x']"),
    ],
)
def test_the_comparison_itself_finds_a_difference(other, words):
    mine = pa.table({"x": pa.array([1.0, 0.0])})
    assert first_difference(mine, mine) == ""
    assert words in first_difference(mine, other) or words in first_difference(other, mine)


def test_lists_and_texts_that_differ_are_found():
    lists = [pa.table({"x": pa.array([value], pa.list_(pa.int64()))}) for value in ([1], [2])]
    assert first_difference(*lists) == "column 'x', row 0: [2], not [1]"
    assert first_difference(pa.table({"x": ["a"]}), pa.table({"x": ["b"]})) == "column 'x', row 0: 'b', not 'a'"


def test_nan_bits_go_out_and_come_back():
    column = pa.array([1.0, *NAN, None], from_pandas=False)
    odd = odd_nans(column)
    assert sorted(odd) == [2, 3, 4]
    plain = pc.if_else(pc.is_nan(column), math.nan, column)
    table = lambda one: pa.table({"x": one})  # noqa: E731
    assert first_difference(table(column), table(with_bits(plain, odd))) == ""
    assert first_difference(table(column), table(plain)) != ""


def test_what_does_not_read_back_is_deleted_and_said(run, tmp_path, monkeypatch):
    def wrong(path, sidecar):
        table = read_table(path, sidecar)
        if "loss" not in table.schema.names:
            return table
        return table.set_column(table.schema.names.index("loss"), "loss", pc.add(table["loss"], 1.0))

    monkeypatch.setattr(analysis.export_csv, "read_table", wrong)
    with pytest.raises(
        StoreError, match=r"batches.csv: does not read back as it was written: column 'loss', row 0: 1.0"
    ):
        export_csv(run, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_nothing(run, tmp_path, monkeypatch):
    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(analysis.export_csv.shutil, "copyfile", full)
    with pytest.raises(StoreError, match="store is full"):
        export_csv(run, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("to", "folder", "words"),
    [
        ("cvs", "out", "--to: found \"cvs\"\n    did you mean 'csv'?\n    allowed: csv, wandb"),
        ("csv", ".", "is there already\n    Choose another --output, or delete it."),
        ("csv", "no/out", "is no folder\n    Make it (mkdir -p), or choose another --output."),
    ],
)
def test_bad_input(run, tmp_path, to, folder, words):
    with pytest.raises(BadInput) as raised:
        export(run, to, tmp_path / folder)
    assert words in str(raised.value)


def test_without_wandb_it_says_how_to_get_it(run, tmp_path, monkeypatch):
    real = builtins.__import__
    monkeypatch.delitem(sys.modules, "wandb", raising=False)

    def without(name, *args):
        if name == "wandb":
            raise ImportError(name)
        return real(name, *args)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(BadInput) as raised:
        export_wandb(run, tmp_path / "out")
    assert str(raised.value) == (
        "--to wandb: the package wandb is not installed\n"
        "    Install it with pip install 'ablate-study[wandb]'; --to csv needs nothing."
    )
    assert list(tmp_path.iterdir()) == []


def test_wandbs_json_reads_back_as_columns():
    history = [
        {"loss": "-0", "h": '"00ff"'},
        {"loss": "NaN", "loss.nan_bits": '"fff8000000000000"'},
        {"loss": "Infinity"},
    ]
    table = table_of(history, pa.schema([("loss", pa.float64()), ("h", pa.uint64())]))
    written = pa.table(
        {"loss": pa.array([-0.0, NAN[1], math.inf], from_pandas=False), "h": pa.array([255, None, None], pa.uint64())}
    )
    assert first_difference(written, table) == ""


def test_a_wandb_export_reads_back_bit_for_bit(tmp_path, monkeypatch):
    for name in ("exit", "excepthook"):
        monkeypatch.setattr(sys, name, getattr(sys, name))  # wandb hooks them; later tests read tracebacks
    pytest.importorskip("wandb", reason="wandb is not installed: pip install 'ablate-study[wandb]'")
    spec = grid({"a": arm(1), "b": arm(1, way=2)}, factors={"lr": (0.1,)}, batches=700)  # several blocks of its file

    def long(trial):
        losses = generator(trial.arm).standard_normal(700)
        losses[:8] = [-0.0, 5e-324, 1.7976931348623157e308, math.inf, -math.inf, *NAN[:3]]
        return Told(losses, metrics={"odd": np.resize(NAN, 700)}, hashes={"wall_s": 1 / 3})

    run = write_run(tmp_path / "run", spec, long)
    assert export_wandb(run, tmp_path / "out") == {"batches": 1400, "trials": 2}
    assert len(list((tmp_path / "out" / "wandb").glob("offline-run-*"))) == 2


def test_the_command(run, tmp_path):
    def ablate(*words):
        return subprocess.run([ABLATE, *words], cwd=tmp_path, capture_output=True, text=True, check=False)

    done = ablate("export", run.paths.root, "--to", "csv")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "wrote synthetic-csv: rows 960 batches, 16 trials, 80 audits, 0 artifacts, 32 sketches, 0 probes, 0 attempts; "
        "read back, equal bit for bit\n"
    )
    again = ablate("export", run.paths.root)
    assert again.returncode == 2
    assert "error: synthetic-csv: is there already" in again.stderr
