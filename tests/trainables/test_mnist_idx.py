import gzip
import struct

import numpy as np
import pytest

from ablate.errors import BadInput
from ablate.trial.draw import Draw
from trainables import mnist_idx
from trainables.autoencoder import Autoencoder

COUNTS = {"train": 6, "t10k": 4}
NAMES = {
    ("train", "images"): "train-images-idx3-ubyte",
    ("train", "labels"): "train-labels-idx1-ubyte",
    ("t10k", "images"): "t10k-images-idx3-ubyte",
    ("t10k", "labels"): "t10k-labels-idx1-ubyte",
}


def idx(array):
    """The bytes of an idx file of unsigned bytes, as http://yann.lecun.com/exdb/mnist describes them."""
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


def arrays(split, kind):
    generator = np.random.default_rng([len(split), len(kind), kind == "images"])
    shape = (COUNTS[split], 28, 28) if kind == "images" else (COUNTS[split],)
    return generator.integers(0, 256 if kind == "images" else 10, shape, dtype=np.uint8)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(mnist_idx, "COUNTS", COUNTS)
    for (split, kind), name in NAMES.items():
        (tmp_path / name).write_bytes(idx(arrays(split, kind)))
    return tmp_path


def refusal(folder):
    with pytest.raises(BadInput) as caught:
        mnist_idx.load(str(folder))
    return str(caught.value)


def test_mnists_own_counts_are_asked_for():
    assert mnist_idx.COUNTS == {"train": 60_000, "t10k": 10_000}


@pytest.mark.parametrize("how", ["plain", "gzipped", "with dots"])
def test_training_images_come_first_and_test_images_are_held_out(folder, how):
    for file in list(folder.iterdir()):
        if how == "gzipped":
            (folder / f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
            file.unlink()
        elif how == "with dots":
            file.rename(folder / file.name.replace("-idx", ".idx"))
    images = mnist_idx.load(str(folder))
    assert np.array_equal(images.train, np.arange(6))
    assert np.array_equal(images.held_out, np.arange(6, 10))
    assert np.array_equal(images.pixels[:6].reshape(6, 28, 28), arrays("train", "images"))
    assert np.array_equal(images.pixels[6:].reshape(4, 28, 28), arrays("t10k", "images"))
    assert np.array_equal(images.labels, np.concatenate([arrays("train", "labels"), arrays("t10k", "labels")]))


def test_the_autoencoder_trains_on_them_and_names_them_by_a_hash_of_their_contents(folder):
    thing = Autoencoder(data="mnist-idx", path=str(folder), batch_size=3)
    before = thing.prepare()
    batch = next(thing.batches(Draw("study", 0)))
    assert set(batch.index.tolist()) <= set(range(6))
    expected = arrays("train", "images").reshape(6, -1)[batch.index].astype(np.float32) / np.float32(255)
    assert np.array_equal(batch.tensors["images"].numpy(), expected)
    assert set(thing.evaluate(thing.build(), lambda tensor: tensor)) == {"held_out_loss"}
    other = arrays("train", "images")
    other[0, 0, 0] ^= 1
    (folder / NAMES["train", "images"]).write_bytes(idx(other))
    assert Autoencoder(data="mnist-idx", path=str(folder)).prepare() != before


def test_a_missing_folder_is_named(tmp_path):
    assert refusal(tmp_path / "none") == (
        f"{tmp_path / 'none'}: no such folder\n    allowed: the folder of MNIST's idx files"
    )


def test_a_file_in_a_folders_place_is_named(folder):
    file = folder / NAMES["train", "images"]
    assert refusal(file) == f"{file}: isn't a folder\n    allowed: the folder of MNIST's idx files"


def test_a_missing_file_is_named(folder):
    file = folder / NAMES["t10k", "labels"]
    file.unlink()
    assert refusal(folder) == f"{file}: no such file\n    allowed: it, or t10k-labels-idx1-ubyte.gz"


def test_a_wrong_magic_number_is_named(folder):
    file = folder / NAMES["train", "images"]
    file.write_bytes(struct.pack(">I", 2052) + file.read_bytes()[4:])
    assert refusal(folder) == f"{file}: begins with 2052\n    allowed: 2051, the magic number of idx images"
    file.write_bytes(b"")
    assert refusal(folder) == f"{file}: is empty\n    allowed: 2051, the magic number of idx images"


@pytest.mark.parametrize(
    ("shape", "found"), [((5, 28, 28), "5x28x28"), ((6, 32, 32), "6x32x32")], ids=["count", "size"]
)
def test_a_wrong_shape_is_named(folder, shape, found):
    file = folder / NAMES["train", "images"]
    file.write_bytes(idx(np.zeros(shape, dtype=np.uint8)))
    assert refusal(folder) == f"{file}: says its shape is {found}\n    allowed: 6x28x28"


@pytest.mark.parametrize("change", [-1, 1])
def test_data_that_dont_fit_the_head_are_named(folder, change):
    file = folder / NAMES["train", "labels"]
    content = file.read_bytes()
    file.write_bytes(content[:-1] if change < 0 else content + b"\0")
    expected = f"{file}: holds {6 + change} bytes of labels, and its head says 6\n    it is truncated or damaged"
    assert refusal(folder) == expected


@pytest.mark.parametrize("cut", [0, 10, 200])
def test_a_truncated_gzip_file_is_named(folder, cut):
    file = folder / NAMES["train", "images"]
    packed = folder / f"{file.name}.gz"
    packed.write_bytes(gzip.compress(file.read_bytes())[:cut])
    file.unlink()
    text = refusal(folder)
    assert text.startswith(f"{packed}: {'is empty' if cut == 0 else 'can' + chr(39) + 't be read: '}")


def test_a_label_that_is_no_digit_is_named(folder):
    file = folder / NAMES["train", "labels"]
    file.write_bytes(idx(np.full(6, 10, dtype=np.uint8)))
    assert refusal(folder) == f"{file}: holds the label 10\n    allowed: 0 to 9"
