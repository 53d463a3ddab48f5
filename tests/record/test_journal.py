from __future__ import annotations

import errno
import os
import socket
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ablate.errors import BadInput, StoreError
from ablate.record.journal import JournalWriter, read_identity, read_journal, rows_written

WHO = {"trial_id": "tab", "attempt": 1, "arm": "fast", "block": 0, "factors": {}}


def write(path: Path, rows: int, metrics: tuple[str, ...] = ()) -> None:
    writer = JournalWriter(path, WHO)
    for k in range(rows):
        writer.append(k, 0.5 * k, 0.01, dict.fromkeys(metrics, 1.0 * k), k if k % 2 else None, None)
    writer.close()


def bits(value: float) -> int:
    return int(struct.unpack("<q", struct.pack("<d", value))[0])


any_float = st.integers(0, 2**64 - 1).map(lambda n: struct.unpack("<d", n.to_bytes(8, "little"))[0])


@given(st.lists(st.tuples(any_float, any_float, st.none() | st.integers(0, 2**64 - 1)), max_size=8))
def test_every_bit_of_any_float_comes_back(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("journal") / "t-1.rows"
    writer = JournalWriter(path, WHO)
    for k, (loss, metric, order) in enumerate(rows):
        writer.append(k, loss, 0.0, {"m": metric}, order, None)
    writer.close()
    journal = read_journal(path)
    assert journal.rows["loss"].view(np.int64).tolist() == [bits(loss) for loss, _, _ in rows]
    if rows:
        assert journal.rows["metric.m"].view(np.int64).tolist() == [bits(metric) for _, metric, _ in rows]
        assert journal.rows["flags"].tolist() == [int(order is not None) for _, _, order in rows]
        assert journal.rows["order_hash"].tolist() == [order or 0 for _, _, order in rows]


def test_identity_is_there_before_the_first_row(tmp_path):
    path = tmp_path / "t-1.rows"
    write(path, 0)
    assert read_identity(path) == {**WHO, "pid": os.getpid(), "host": socket.gethostname()}
    assert len(read_journal(path).rows) == 0


@pytest.mark.parametrize("metrics", [(), ("a", "b")])
def test_any_torn_tail_is_dropped_and_said(tmp_path, metrics):
    path = tmp_path / "t-1.rows"
    write(path, 3, metrics)
    data = path.read_bytes()
    seen = []
    for length in range(len(data), -1, -1):
        path.write_bytes(data[:length])
        journal = read_journal(path)
        seen.append(len(journal.rows))
        assert journal.rows["batch_index"].tolist() == list(range(len(journal.rows)))
    assert seen == sorted(seen, reverse=True)
    assert set(seen) == {0, 1, 2, 3}


def test_a_tail_of_zeros_after_power_loss_is_dropped(tmp_path):
    path = tmp_path / "t-1.rows"
    write(path, 2)
    path.write_bytes(path.read_bytes() + bytes(200))
    journal = read_journal(path)
    assert (len(journal.rows), journal.dropped_bytes) == (2, 200)


def test_a_file_of_zeros_holds_nothing(tmp_path):
    path = tmp_path / "t-1.rows"
    path.write_bytes(bytes(300))
    assert read_identity(path) == {}


def test_a_corrupt_row_in_the_middle_is_named(tmp_path):
    path = tmp_path / "t-1.rows"
    write(path, 5)
    data = bytearray(path.read_bytes())
    data[-45 * 3 + 9] ^= 1  # row 2's loss
    path.write_bytes(data)
    with pytest.raises(StoreError, match=r"t-1\.rows: row 2: the row is corrupt\n    the disk returned other bytes"):
        read_journal(path)


def test_a_corrupt_head_is_named(tmp_path):
    path = tmp_path / "t-1.rows"
    write(path, 5)
    data = bytearray(path.read_bytes())
    data[30] ^= 1
    path.write_bytes(data)
    with pytest.raises(StoreError, match="row 0: the row is corrupt"):
        read_journal(path)


def test_a_missing_row_is_named(tmp_path):
    path = tmp_path / "t-1.rows"
    write(path, 5)
    data = path.read_bytes()
    path.write_bytes(data[: -45 * 3] + data[-45 * 2 :])
    with pytest.raises(StoreError, match="row 2: the row is corrupt"):
        read_journal(path)


def test_something_else_is_no_journal(tmp_path):
    path = tmp_path / "t-1.rows"
    path.write_bytes(b"hello, I am a text file")
    with pytest.raises(StoreError, match="is no journal\n    delete it: the trial runs again"):
        read_journal(path)


def test_an_attempt_is_begun_once(tmp_path):
    path = tmp_path / "t-1.rows"
    write(path, 1)
    with pytest.raises(StoreError, match="this attempt was begun already"):
        write(path, 1)
    assert len(read_journal(path).rows) == 1


@pytest.mark.parametrize("later", [{"a": 1.0}, {"a": 1.0, "c": 1.0}, {"a": 1.0, "b": 1.0, "c": 1.0}, {}])
def test_metrics_are_those_of_batch_0(tmp_path, later):
    writer = JournalWriter(tmp_path / "t-1.rows", WHO)
    writer.append(0, 1.0, 0.1, {"a": 1.0, "b": 2.0}, None, None)
    with pytest.raises(BadInput, match=r"trial tab, attempt 1, batch 1: metrics .*, but batch 0 had \['a', 'b'\]"):
        writer.append(1, 1.0, 0.1, later, None, None)
    writer.append(1, 1.0, 0.1, {"b": 4.0, "a": 3.0}, None, None)  # the order does not matter
    writer.close()
    assert read_journal(tmp_path / "t-1.rows").rows["metric.b"].tolist() == [2.0, 4.0]


@pytest.mark.parametrize("batch", [0, 1])
@pytest.mark.parametrize(("loss", "metric"), [("0.5", 1.0), (0.5, None)])
def test_a_value_that_is_no_number_is_refused(tmp_path, batch, loss, metric):
    writer = JournalWriter(tmp_path / "t-1.rows", WHO)
    for k in range(batch):
        writer.append(k, 1.0, 0.1, {"a": 1.0}, None, None)
    with pytest.raises(BadInput, match=f"batch {batch}: not a number among loss={loss!r}"):
        writer.append(batch, loss, 0.1, {"a": metric}, None, None)
    writer.append(batch, 0.5, 0.1, {"a": 1.0}, None, None)
    writer.close()
    assert len(read_journal(tmp_path / "t-1.rows").rows) == batch + 1


@pytest.mark.parametrize("taken", [0, 1, 20, 44])
@pytest.mark.parametrize("batch", [0, 2])
def test_a_short_write_is_undone_or_finished(tmp_path, monkeypatch, taken, batch):
    path = tmp_path / "t-1.rows"
    writer = JournalWriter(path, WHO)
    for k in range(batch):
        writer.append(k, 1.0 * k, 0.1, {}, None, None)
    real, calls = os.write, []

    def stingy(fd: int, data: bytes) -> int:
        calls.append(1)
        if len(calls) == 1 and taken:
            return real(fd, bytes(data)[:taken])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", stingy)
    with pytest.raises(StoreError, match=r"t-1\.rows: store is full: .* MiB free there\n    free some space"):
        writer.append(batch, 1.0 * batch, 0.1, {}, None, None)
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, bytes(data)[:7]))
    writer.append(batch, 1.0 * batch, 0.1, {}, None, None)
    writer.close()
    assert read_journal(path).rows["loss"].tolist() == [1.0 * k for k in range(batch + 1)]
    assert read_journal(path).dropped_bytes == 0


@pytest.mark.parametrize("metrics", [(), ("a", "b")])
def test_rows_are_counted_by_size(tmp_path, metrics):
    path = tmp_path / "t-1.rows"
    assert rows_written(path) is None
    writer = JournalWriter(path, WHO)
    for k in range(4):
        assert rows_written(path) == k
        writer.append(k, 0.5, 0.1, dict.fromkeys(metrics, 1.0), None, None)
    writer.close()
    assert rows_written(path) == 4
