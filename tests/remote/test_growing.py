"""Files that grow are uploaded in segments: only the last is written again, and joined they are the file."""

from __future__ import annotations

import os

import pytest

from ablate.errors import StoreError
from ablate.remote import growing
from ablate.remote.growing import Growing, file_of, segments, size_of
from ablate.remote.objects import Objects


@pytest.fixture
def objects(tmp_path, monkeypatch):
    monkeypatch.setattr(growing, "SEGMENT", 10)
    (tmp_path / "shared").mkdir()
    return Objects(f"file://{tmp_path}/shared/runs/study")


def joined(objects, tmp_path):
    names = objects.names("journal")
    [parts] = segments(names).values()
    objects.fetch_joined(parts, tmp_path / "joined")
    assert size_of(parts, names) == (tmp_path / "joined").stat().st_size
    return (tmp_path / "joined").read_bytes()


def test_a_short_file_is_one_object_under_its_own_name(objects, tmp_path):
    path = tmp_path / "t-1.rows"
    one = Growing(path, "journal/t-1.rows")
    one.send(objects)
    assert objects.names() == {}  # not there yet
    path.write_bytes(b"0123")
    one.send(objects)
    assert objects.names() == {"journal/t-1.rows": 4}


def test_a_long_file_is_sent_in_segments_and_only_its_end_again(objects, tmp_path, monkeypatch):
    path = tmp_path / "t-1.rows"
    written = []
    plain = Objects.write
    monkeypatch.setattr(
        Objects, "write", lambda self, name, content: (written.append(name), plain(self, name, content))
    )
    one = Growing(path, "journal/t-1.rows")
    whole = bytes(range(65, 65 + 25)) * 2
    for end in (4, 9, 10, 11, 25, 25, 30, 50):
        path.write_bytes(whole[:end])
        written.clear()
        one.send(objects)
        assert joined(objects, tmp_path) == whole[:end]
        if end == 11:
            assert written == ["journal/t-1.rows.seg1"]
    assert written == ["journal/t-1.rows.seg3", "journal/t-1.rows.seg4"]
    written.clear()
    one.send(objects)
    assert written == []
    assert sorted(objects.names()) == ["journal/t-1.rows", *(f"journal/t-1.rows.seg{k}" for k in (1, 2, 3, 4))]


def test_a_tail_that_was_cut_off_and_written_anew_is_sent_anew(objects, tmp_path):
    path = tmp_path / "t-1.rows"
    one = Growing(path, "journal/t-1.rows")
    path.write_bytes(b"abcdefghij0123")
    one.send(objects)
    os.truncate(path, 11)
    with path.open("ab") as file:
        file.write(b"xyz!")
    one.send(objects)
    assert joined(objects, tmp_path) == b"abcdefghij0xyz!"


def test_names_are_told_apart():
    assert file_of("journal/t-1.rows.seg12") == "journal/t-1.rows"
    assert file_of("journal/t-1.trial.json") == "journal/t-1.trial.json"
    names = ["j/a.rows.seg10", *(f"j/a.rows.seg{k}" for k in range(1, 10)), "j/a.rows", "j/b.log"]
    assert segments(names) == {
        "j/a.rows": ["j/a.rows", *(f"j/a.rows.seg{k}" for k in range(1, 11))],
        "j/b.log": ["j/b.log"],
    }


def test_a_missing_segment_is_told():
    with pytest.raises(StoreError, match=r"j/a\.rows: has segments \[0, 2\] only"):
        segments(["j/a.rows", "j/a.rows.seg2"])
