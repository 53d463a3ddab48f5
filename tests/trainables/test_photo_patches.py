import numpy as np
import pytest

from ablate.errors import BadInput
from trainables import photo_patches
from trainables.decode import decode
from trainables.package_files import package_file
from trainables.photographs import PHOTOGRAPHS

pytest.importorskip("skimage", reason="the video extra isn't installed")
pytest.importorskip("av", reason="the video extra isn't installed")


def picture(name):
    (found,) = decode(package_file("skimage", "scikit-image", f"data/{name}.png"))
    return found


def test_patches_are_pixels_of_the_photographs_and_every_tenth_is_held_out():
    images = photo_patches.load()
    assert images.pixels.shape == (943, 3 * 32 * 32)
    assert len(images.train) + len(images.held_out) == 943
    assert images.held_out.tolist() == list(range(9, 943, 10))
    assert set(images.labels[images.held_out]) == set(range(len(PHOTOGRAPHS)))
    for row in (0, 17, 300, 942):
        number = int(images.labels[row])
        shown = picture(PHOTOGRAPHS[number])
        at, across = row - int(np.argmax(images.labels == number)), shown.shape[1] // 32
        top, left = at // across * 32, at % across * 32
        patch = images.pixels[row].reshape(3, 32, 32).transpose(1, 2, 0)
        assert np.array_equal(patch, shown[top : top + 32, left : left + 32])


def test_patches_share_no_pixel():
    numbered = np.arange(3 * 7 * 10, dtype=np.uint8).reshape(7, 10, 3)
    found = photo_patches.patches(numbered, 3)
    assert found.shape == (6, 27)
    assert len(np.unique(found)) == found.size


def test_a_side_that_leaves_too_few_patches_is_refused():
    with pytest.raises(BadInput) as caught:
        photo_patches.load(200)
    assert str(caught.value).endswith(
        "astronaut.png: gives 4 patches of 200 pixels\n    allowed: 10 or more\n    choose a smaller side"
    )
