"""Where a GAN's images come from; the readers themselves have tests of their own."""

import numpy as np
import pytest

from ablate.errors import BadInput
from trainables import cifar10, gan_data, mnist, mnist_idx
from trainables.gan import GAN
from trainables.gan_data import GanData
from trainables.images import Images

UNUSED = "GAN.path: is '/a', but data: {0} reads none\n    remove it, or write data: mnist-idx or cifar10 or folder"


@pytest.mark.parametrize(
    ("data", "side", "shape"),
    [
        ("mnist", 32, (1, 28, 28)),
        ("mnist-idx", 32, (1, 28, 28)),
        ("cifar10", 32, (3, 32, 32)),
        ("photographs", 16, (3, 16, 16)),
        ("folder", 64, (3, 64, 64)),
    ],
)
def test_an_images_shape_is_known_without_reading_any(data, side, shape):
    path = "/nowhere" if data in gan_data.ON_DISK else ""
    assert GanData("GAN", data, path, side).shape == shape


@pytest.mark.parametrize(("data", "reader"), [("mnist-idx", mnist_idx), ("cifar10", cifar10)])
def test_the_users_files_are_read_by_their_reader(data, reader, monkeypatch):
    found = Images(np.zeros((1, 4), np.uint8), np.zeros(1, np.int64), np.arange(1), np.arange(0))
    monkeypatch.setattr(reader, "load", lambda path: (path, found))
    assert GanData("GAN", data, "/my/files", 32).pictures == ("/my/files", found)


def test_mnist_is_the_digits_that_ship():
    assert GanData("GAN", "mnist", "", 32).pictures.digest() == mnist.load().digest()


def test_missing_cifar10_is_an_error_and_never_patches_of_photographs(tmp_path):
    with pytest.raises(BadInput, match="data_batch_1: no such file"):
        GAN(data="cifar10", path=str(tmp_path)).prepare()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"data": "cifar10"}, "GAN.path: is missing; data: cifar10 needs it"),
        ({"data": "folder"}, "GAN.path: is missing; data: folder needs it"),
        ({"path": "/a"}, UNUSED.format("mnist")),
        ({"data": "photographs", "path": "/a"}, UNUSED.format("photographs")),
        (
            {"data": "imagenet"},
            "GAN.data: is 'imagenet'\n    allowed: mnist, mnist-idx, cifar10, photographs, folder",
        ),
        (
            {"side": 64},
            "GAN.side: is 64, but data: mnist has a size of its own\n"
            "    remove it, or write data: photographs or folder",
        ),
        (
            {"data": "photographs", "side": 30},
            "GAN.side: is 30\n    allowed: a multiple of 4, since two layers halve it twice",
        ),
        ({"data": "photographs", "side": 0}, "GAN.side: is 0\n    allowed: a whole number, 4 or more"),
    ],
)
def test_a_setting_that_doesnt_fit_is_refused_when_the_trainable_is_made(settings, message):
    with pytest.raises(BadInput) as caught:
        GAN(**settings)
    assert str(caught.value).startswith(message)
