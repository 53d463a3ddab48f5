import numpy as np
import pytest
from PIL import Image

from ablate.errors import BadInput
from trainables import image_folder
from trainables.gan import GAN
from trainables.image_folder import ImageFolder

MISSING = "no such folder\n    allowed: a folder of pictures"


def pixels(number, height=9, width=8):
    return np.random.default_rng(number).integers(0, 256, (height, width, 3), dtype=np.uint8)


@pytest.fixture
def folder(tmp_path):
    """Like ImageNet's: a folder a class; 5 x 5 pictures, losslessly stored, of which 8 x 8 pixels give 4 x 4."""
    root = tmp_path / "it's [here]"
    for number in range(25):
        file = root / f"n{number // 5:04}" / f"{number:03}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels(number)).save(file)
    (root / "notes.txt").write_text("no picture")
    return root


def test_pictures_are_read_in_the_order_of_their_path_and_every_tenth_is_held_out(folder):
    found = ImageFolder(str(folder), 4)
    assert [file.name for file in found.files] == [f"{number:03}.png" for number in range(25)]
    assert found.labels.tolist() == [number // 5 for number in range(25)]
    assert found.held_out.tolist() == [9, 19]
    assert found.train.tolist() == [number for number in range(25) if number not in (9, 19)]


def test_a_picture_is_its_centre_averaged_over_blocks_red_then_green_then_blue(folder):
    rows = np.array([3, 24, 3])
    found = ImageFolder(str(folder), 4).floats(rows)
    assert (found.shape, found.dtype) == ((3, 48), np.float32)
    for number, given in zip(rows, found, strict=True):
        centre = pixels(number)[0:8].astype(int)  # 9 rows, of which the last is left over
        mean = (centre.reshape(4, 2, 4, 2, 3).sum((1, 3)) + 2) // 4
        assert np.array_equal(given.reshape(3, 4, 4), mean.transpose(2, 0, 1).astype(np.float32) / np.float32(255))


def test_only_what_a_batch_asks_for_is_decoded_and_only_once(folder, monkeypatch):
    opened = []
    whole = image_folder._rgb
    monkeypatch.setattr(image_folder, "_rgb", lambda file: opened.append(file.name) or whole(file))
    found = ImageFolder(str(folder), 4)
    assert opened == []
    found.floats(np.array([2, 7]))
    found.floats(np.array([7, 2, 8]))
    assert opened == ["002.png", "007.png", "008.png"]


def test_memory_is_bounded(folder, monkeypatch):
    monkeypatch.setattr(image_folder, "MOST_BYTES", 3 * 3 * 4 * 4)
    found = ImageFolder(str(folder), 4)
    found.floats(np.arange(25))
    assert found._decoded.cache_info().currsize == 3


def test_the_digest_is_of_names_and_bytes(folder):
    whole = ImageFolder(str(folder), 4).digest()
    assert ImageFolder(str(folder), 4).digest() == whole
    assert ImageFolder(str(folder), 8).digest() != whole
    file = folder / "n0001" / "007.png"
    content = file.read_bytes()
    Image.fromarray(pixels(99)).save(file)
    assert ImageFolder(str(folder), 4).digest() != whole
    file.write_bytes(content)
    assert ImageFolder(str(folder), 4).digest() == whole
    file.rename(file.with_name("007b.png"))
    assert ImageFolder(str(folder), 4).digest() != whole


@pytest.mark.parametrize("mode", ["L", "P", "RGBA", "CMYK"])
def test_pictures_of_other_kinds_become_rgb(folder, mode):
    file = folder / "n0000" / ("000.jpg" if mode == "CMYK" else "000.png")
    (folder / "n0000" / "000.png").unlink()
    Image.fromarray(pixels(0)).convert(mode).save(file)
    found = ImageFolder(str(folder), 4).floats(np.array([0]))[0].reshape(3, 4, 4)
    if mode == "L":
        assert np.array_equal(found[0], found[1])
    elif mode == "RGBA":
        (folder / "n0000" / "001.png").unlink()
        Image.fromarray(pixels(0)).save(folder / "n0000" / "001.png")
        assert np.array_equal(found, ImageFolder(str(folder), 4).floats(np.array([1]))[0].reshape(3, 4, 4))
    assert 0 <= found.min() < found.max() <= 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"no picture", "007.png: isn't a picture\n    take it out of the folder"),
        (None, "007.png: can't be decoded: image file is truncated"),
        (b"small", "007.png: frames are 3x2, smaller than the crop 4x4\n    choose a smaller width and height"),
    ],
)
def test_a_bad_picture_is_named(folder, content, message):
    file = folder / "n0001" / "007.png"
    if content == b"small":
        Image.fromarray(pixels(7, 2, 3)).save(file)
    else:
        file.write_bytes(content or file.read_bytes()[:150])
    found = ImageFolder(str(folder), 4)
    with pytest.raises(BadInput) as caught:
        found.floats(np.array([7]))
    assert message in str(caught.value)


def test_a_folder_that_isnt_there_or_holds_too_few_is_refused(folder, tmp_path):
    with pytest.raises(BadInput, match=MISSING):
        ImageFolder(str(tmp_path / "none"), 4)
    with pytest.raises(BadInput) as caught:
        ImageFolder(str(folder / "n0000"), 4)
    assert str(caught.value) == (
        f"{folder / 'n0000'}: holds 5 pictures, of which every tenth would be held out\n"
        "    allowed: 10 or more files that end in .bmp, .jpeg, .jpg, .png, .ppm, .webp"
    )


def test_a_gan_needs_enough_held_out_pictures(folder):
    with pytest.raises(BadInput) as caught:
        GAN(data="folder", path=str(folder), side=4, batch_size=2).prepare()
    assert str(caught.value) == "GAN.data: folder holds out 2 images\n    allowed: 6 or more, to measure coverage"
