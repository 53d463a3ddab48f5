from pathlib import Path

import numpy as np
import pytest

from ablate.errors import BadInput
from ablate.trial.draw import Draw
from trainables import cache as store
from trainables.prednet import PredNet

FRAMES = np.arange(24, dtype=np.uint8).reshape(2, 2, 2, 3)


def never():
    raise AssertionError("decoded again")


def test_the_folder_follows_the_environment(monkeypatch):
    monkeypatch.setenv("ABLATE_CACHE", "/a")
    monkeypatch.setenv("XDG_CACHE_HOME", "/b")
    monkeypatch.setenv("HOME", "/c")
    assert store.folder() == Path("/a")
    monkeypatch.delenv("ABLATE_CACHE")
    assert store.folder() == Path("/b/ablate")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert store.folder() == Path("/c/.cache/ablate")


def test_an_array_is_made_once_and_then_mapped_read_only(empty_cache):
    store.cached("x", FRAMES.copy)
    again = store.cached("x", never)
    assert isinstance(again, np.memmap)
    assert not again.flags.writeable
    assert np.array_equal(again, FRAMES)
    assert [file.name for file in empty_cache.iterdir()] == ["x.npy"]  # nothing aside is left over


def test_a_damaged_file_is_made_again(empty_cache):
    store.cached("x", FRAMES.copy)
    file = empty_cache / "x.npy"
    file.write_bytes(file.read_bytes()[:-5])
    assert np.array_equal(store.cached("x", FRAMES.copy), FRAMES)
    file.write_bytes(b"")
    assert np.array_equal(store.cached("x", FRAMES.copy), FRAMES)


def test_a_failed_write_leaves_nothing_behind(empty_cache, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    with pytest.raises(BadInput) as caught:
        store.cached("x", FRAMES.copy)
    assert str(caught.value) == (
        f"{empty_cache}: decoded data can't be kept: No space left on device\n"
        "    set ABLATE_CACHE to a folder that can be written"
    )
    assert list(empty_cache.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_named(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ABLATE_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(BadInput, match="decoded data can't be kept: Not a directory"):
        store.cached("x", FRAMES.copy)


def test_the_key_depends_on_bytes_order_and_parameters(tmp_path):
    one, other = tmp_path / "1", tmp_path / "2"
    one.write_bytes(b"1")
    other.write_bytes(b"2")
    keys = {
        store.key([one, other], "p"),
        store.key([other, one], "p"),
        store.key([one, other], "q"),
        store.key([one], "p"),
    }
    assert len(keys) == 4
    before = store.key([one], "p")
    one.write_bytes(b"3")
    assert store.key([one], "p") != before


def test_after_prepare_a_trial_decodes_nothing(cache, monkeypatch):
    thing = PredNet(width=24, height=16, channels="3,8,8")
    thing.prepare()
    monkeypatch.setattr("trainables.clips.decode", lambda *_: never())
    next(thing.batches(Draw("study", 0)))
    thing.evaluate(thing.build(), lambda tensor: tensor)
