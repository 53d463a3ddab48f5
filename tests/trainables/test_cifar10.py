import hashlib
import io
import os
import pickle
import struct
import tarfile
from typing import ClassVar

import numpy as np
import pytest

from ablate.errors import BadInput
from ablate.trial.draw import Draw
from trainables import cifar10
from trainables.autoencoder import Autoencoder

EACH = 3


class Python2Pickler(pickle._Pickler):
    """Writes what Python 2's cPickle wrote at protocol 2: texts as byte strings, NumPy's old module name."""

    dispatch: ClassVar = dict(pickle._Pickler.dispatch)

    def save_string(self, value):
        data = value if isinstance(value, bytes) else value.encode("latin1")
        self.write(b"U" + bytes([len(data)]) + data if len(data) < 256 else b"T" + struct.pack("<i", len(data)) + data)
        self.memoize(value)

    dispatch[bytes] = save_string
    dispatch[str] = save_string

    def save_global(self, value, name=None):
        name = name or value.__name__
        module = "numpy.core.multiarray" if name == "_reconstruct" else value.__module__
        self.write(f"c{module}\n{name}\n".encode())
        self.memoize(value)

    dispatch[type] = save_global
    dispatch[type(pickle.dumps)] = save_global


def batch(seed, changes=()):
    generator = np.random.default_rng(seed)
    content = {
        b"batch_label": b"training batch 1 of 5",
        b"labels": [int(n) for n in generator.integers(0, 10, EACH)],
        b"data": generator.integers(0, 256, (EACH, 3072), dtype=np.uint8),
        b"filenames": [b"a.png"] * EACH,
        **dict(changes),
    }
    out = io.BytesIO()
    Python2Pickler(out, protocol=2).dump(content)
    return content, out.getvalue()


def md5(data):
    return hashlib.md5(data).hexdigest()


@pytest.fixture
def batches():
    return {name: batch(seed) for seed, name in enumerate(cifar10.BATCH_MD5)}


@pytest.fixture
def folder(tmp_path, batches):
    for name, (_, data) in batches.items():
        (tmp_path / name).write_bytes(data)
    return tmp_path


def sums(batches):
    return {name: md5(data) for name, (_, data) in batches.items()}


def archive(tmp_path, batches):
    file = tmp_path / cifar10.ARCHIVE
    with tarfile.open(file, "w:gz") as tar:
        for name, (_, data) in batches.items():
            member = tarfile.TarInfo(f"{cifar10.FOLDER}/{name}")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return file


def refusal(*args, **kwargs):
    with pytest.raises(BadInput) as caught:
        cifar10.load(*args, **kwargs)
    return str(caught.value)


def check(images, batches):
    contents = [content for content, _ in batches.values()]
    assert np.array_equal(images.pixels, np.concatenate([content[b"data"] for content in contents]))
    assert images.labels.tolist() == [label for content in contents for label in content[b"labels"]]
    assert np.array_equal(images.train, np.arange(5 * EACH))
    assert np.array_equal(images.held_out, np.arange(5 * EACH, 6 * EACH))


def test_the_published_checksums_are_asked_for():
    assert cifar10.ARCHIVE_MD5 == "c58f30108f718f92721af3b95e74349a"
    assert list(cifar10.BATCH_MD5) == [*(f"data_batch_{n}" for n in range(1, 6)), "test_batch"]
    assert all(len(value) == 32 for value in cifar10.BATCH_MD5.values())


def test_a_folder_of_batches_is_read(folder, batches):
    check(cifar10.load(str(folder), batch_md5=sums(batches)), batches)


def test_a_folder_above_the_batches_is_read(tmp_path, batches):
    (tmp_path / cifar10.FOLDER).mkdir()
    for name, (_, data) in batches.items():
        (tmp_path / cifar10.FOLDER / name).write_bytes(data)
    check(cifar10.load(str(tmp_path), batch_md5=sums(batches)), batches)


@pytest.mark.parametrize("named", ["file", "folder"])
def test_the_archive_is_read_without_unpacking_it_to_disk(tmp_path, batches, named):
    file = archive(tmp_path, batches)
    path = file if named == "file" else tmp_path
    check(cifar10.load(str(path), archive_md5=md5(file.read_bytes())), batches)
    assert [entry.name for entry in tmp_path.iterdir()] == [cifar10.ARCHIVE]


def test_another_archive_is_refused_before_it_is_opened(tmp_path):
    file = tmp_path / cifar10.ARCHIVE
    file.write_bytes(b"no archive at all")
    assert refusal(str(tmp_path)) == (
        f"{file}: md5 is {md5(b'no archive at all')} (17 bytes)\n    allowed: md5 {cifar10.ARCHIVE_MD5}\n"
        "    it wasn't unpickled: it is damaged or another file; get it again"
    )


def test_another_batch_is_refused_before_it_is_unpickled(folder, batches, monkeypatch):
    expected = sums(batches)
    monkeypatch.setattr(cifar10, "_batch", lambda *_: pytest.fail("unpickled"))
    file = folder / "data_batch_3"
    file.write_bytes(file.read_bytes() + b"\0")
    text = refusal(str(folder), batch_md5=expected)
    assert text.startswith(f"{file}: md5 is {md5(file.read_bytes())} ({file.stat().st_size} bytes)\n")
    assert f"allowed: md5 {expected['data_batch_3']}" in text


def test_real_checksums_refuse_these_files(folder):
    assert f"allowed: md5 {cifar10.BATCH_MD5['data_batch_1']}" in refusal(str(folder))


class Evil:
    def __reduce__(self):
        return os.system, ("touch evil",)


def test_a_pickle_that_would_run_code_is_refused_even_with_the_right_checksum(folder, batches, monkeypatch):
    monkeypatch.chdir(folder)
    data = pickle.dumps({b"data": Evil(), b"labels": []}, protocol=2)
    (folder / "test_batch").write_bytes(data)
    text = refusal(str(folder), batch_md5={**sums(batches), "test_batch": md5(data)})
    assert text.startswith(f"{folder}: test_batch: isn't a batch of CIFAR-10: UnpicklingError('it asks for ")
    assert "and a batch needs NumPy arrays only" in text
    assert not (folder / "evil").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({b"data": np.zeros((EACH, 3071), np.uint8)}, f"its data are uint8 ({EACH}, 3071), with {EACH} labels"),
        ({b"data": np.zeros((EACH, 3072), np.float32)}, f"its data are float32 ({EACH}, 3072), with {EACH} labels"),
        ({b"labels": [1]}, f"its data are uint8 ({EACH}, 3072), with 1 labels"),
        ({b"data": b"bytes"}, f"its data are bytes None, with {EACH} labels"),
        ({b"labels": [0, 10, 1]}, "holds labels from 0 to 10\n    allowed: 0 to 9"),
        ({b"labels": b"text"}, "isn't a batch of CIFAR-10: ValueError("),
    ],
)
def test_a_batch_of_another_shape_is_refused(folder, batches, changes, message):
    _, data = batch(0, changes)
    (folder / "data_batch_1").write_bytes(data)
    text = refusal(str(folder), batch_md5={**sums(batches), "data_batch_1": md5(data)})
    assert text.startswith(f"{folder}: data_batch_1: {message}")


@pytest.mark.parametrize("data", [b"", b"text", pickle.dumps([1]), pickle.dumps({b"data": 1})])
def test_a_file_that_is_no_batch_is_refused(folder, batches, data):
    (folder / "data_batch_1").write_bytes(data)
    text = refusal(str(folder), batch_md5={**sums(batches), "data_batch_1": md5(data)})
    assert text.startswith(f"{folder}: data_batch_1: isn't a batch of CIFAR-10: ")


def test_a_missing_batch_or_folder_is_named(folder, tmp_path, batches):
    (folder / "data_batch_2").unlink()
    allowed = "cifar-10-python.tar.gz, or the folder cifar-10-batches-py unpacked from it"
    expected = f"{folder / 'data_batch_2'}: no such file\n    allowed: {allowed}"
    assert refusal(str(folder), batch_md5=sums(batches)) == expected
    missing = tmp_path / "none"
    assert refusal(str(missing)) == f"{missing / 'data_batch_1'}: no such file\n    allowed: {allowed}"


def test_the_autoencoder_takes_3072_pixels(tmp_path, batches, monkeypatch):
    file = archive(tmp_path, batches)
    monkeypatch.setattr(cifar10.load, "__defaults__", (md5(file.read_bytes()), cifar10.BATCH_MD5))
    thing = Autoencoder(data="cifar10", path=str(file), batch_size=2)
    assert len(thing.prepare()) == 64
    found = next(thing.batches(Draw("study", 0)))
    assert found.tensors["images"].shape == (2, 3072)
    assert set(thing.evaluate(thing.build(), lambda tensor: tensor)) == {"held_out_loss"}
