import sys

import numpy as np
import pytest

from ablate.errors import BadInput
from ablate.trial.draw import Draw
from trainables import cache as store
from trainables import hickle, kitti
from trainables.prednet import PredNet
from trainables.prednet_keras import PredNetKeras

h5py = pytest.importorskip("h5py", reason="the kitti extra isn't installed")
from hickle_files import WRITERS, write_5  # noqa: E402

SOURCES = {
    "train": ["city-a"] * 7 + ["city-b"] * 2 + ["road-c"] * 12,
    "val": ["city-v"] * 6,
}


def frames(split, height=16, width=24):
    shape = (len(SOURCES[split]), height, width, 3)
    return np.random.default_rng(len(split)).integers(0, 256, shape, dtype=np.uint8)


def fill(folder, write=write_5):
    for split, sources in SOURCES.items():
        write(folder / f"X_{split}.hkl", frames(split))
        write(folder / f"sources_{split}.hkl", sources)
    return folder


@pytest.fixture
def folder(tmp_path, empty_cache):
    (tmp_path / "kitti").mkdir()
    return fill(tmp_path / "kitti")


def refusal(folder, width=24, height=16):
    with pytest.raises(BadInput) as caught:
        kitti.film(str(folder), width, height)
    return str(caught.value)


@pytest.mark.parametrize("version", WRITERS)
def test_every_layout_of_hickle_is_read(tmp_path, empty_cache, version):
    film = kitti.film(str(fill(tmp_path, WRITERS[version])), 24, 16)
    assert np.array_equal(film.frames, np.concatenate([frames("train"), frames("val")]))
    assert [(s.start, s.stop, s.held_out) for s in film.shots] == [
        (0, 7, False), (7, 9, False), (9, 21, False), (21, 27, True)
    ]  # fmt: skip


def test_ten_or_more_texts_stay_in_order(tmp_path):
    texts = [f"source {n % 7}" for n in range(25)]
    write_5(tmp_path / "s.hkl", texts)
    assert hickle.texts(tmp_path / "s.hkl") == texts


@pytest.mark.parametrize("length", [1, 3, 6])
def test_a_window_is_valid_when_its_first_and_last_source_agree(folder, length):
    """The rule of coxlab/prednet's SequenceGenerator, but for the very last start, which it leaves out."""
    sources = SOURCES["train"]
    expected = [n for n in range(len(sources) - length) if sources[n] == sources[n + length]]
    assert kitti.film(str(folder), 24, 16).starts(length).tolist() == expected


def test_frames_are_copied_into_the_cache_once_and_read_again_after_a_change(folder, empty_cache, monkeypatch):
    first = kitti.film(str(folder), 24, 16)
    assert isinstance(first.frames, np.memmap)
    with monkeypatch.context() as patch:
        patch.setattr(hickle, "value", lambda *_: pytest.fail("opened again"))
        patch.setitem(sys.modules, "h5py", None)  # trials don't need it
        assert kitti.film(str(folder), 24, 16).digest() == first.digest()
    write_5(folder / "X_val.hkl", 255 - frames("val"))
    assert kitti.film(str(folder), 24, 16).digest() != first.digest()


def test_another_size_is_averaged_from_it(folder):
    film = kitti.film(str(folder), 12, 8)
    block = frames("train")[0, :2, :2].astype(int)
    assert np.array_equal(film.frames[0, 0, 0], (block.sum(axis=(0, 1)) + 2) // 4)


@pytest.mark.parametrize("thing", [PredNet, PredNetKeras])
def test_both_prednets_train_on_it(folder, thing):
    length = {"window": 5} if thing is PredNet else {"nt": 6}
    model = thing(source="kitti", path=str(folder), width=24, height=16, channels="3,4", **length)
    model.prepare()
    batch = next(model.batches(Draw("study", 0)))
    assert batch.tensors["frames"].shape[-3:] == (3, 16, 24)
    assert set(model.evaluate(model.build(), lambda tensor: tensor)) >= {"held_out_loss"}


def test_a_window_that_fits_no_source_is_refused(folder):
    with pytest.raises(BadInput) as caught:
        PredNet(source="kitti", path=str(folder), width=24, height=16, channels="3,4", window=12).prepare()
    assert str(caught.value) == (
        "window: of 12 predicted frames needs 13 without a cut; the longest training shot has 12\n"
        "    allowed: up to 11 predicted frames"
    )


def test_a_missing_folder_or_file_is_named(folder):
    what = "the folder of X_train.hkl, sources_train.hkl, X_val.hkl and sources_val.hkl"
    assert refusal(folder / "none") == f"{folder / 'none'}: no such folder\n    allowed: {what}"
    file = folder / "sources_val.hkl"
    file.unlink()
    assert refusal(folder) == f"{file}: no such file\n    allowed: a file that hickle wrote"


@pytest.mark.parametrize("kept", [0, 100, 3000])
def test_a_truncated_file_is_named(folder, kept):
    file = folder / "X_train.hkl"
    file.write_bytes(file.read_bytes()[:kept])
    text = refusal(folder)
    assert text.startswith(f"{file}: can't be read: ")
    assert text.endswith("allowed: a whole .hkl file\n    it may be truncated, or no HDF5 file")


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((21, 16, 24), np.uint8), "is uint8 (21, 16, 24)\n    allowed: uint8 (N, 128, 160, 3)"),
        (np.zeros((21, 3, 16, 24), np.uint8), "is uint8 (21, 3, 16, 24)\n    allowed: uint8 (N, 128, 160, 3)"),
        (np.zeros((21, 16, 24, 3), np.float32), "is float32 (21, 16, 24, 3)\n    allowed: uint8 (N, 128, 160, 3)"),
        (np.zeros((0, 16, 24, 3), np.uint8), "holds no frames\n    allowed: at least one"),
        (["text", "text"], "holds no array\n    allowed: uint8 (N, 128, 160, 3)"),
    ],
)
def test_frames_of_another_shape_are_named(folder, array, message):
    write_5(folder / "X_train.hkl", array)
    assert refusal(folder) == f"{folder / 'X_train.hkl'}: {message}"


def test_sources_of_another_number_are_named(folder):
    file = folder / "sources_train.hkl"
    write_5(file, ["a"] * 20)
    assert refusal(folder) == f"{file}: names the source of 20 frames\n    allowed: 21, as in X_train.hkl"


@pytest.mark.parametrize("value", [np.zeros(21, np.int64), np.zeros((21, 2), np.uint8)])
def test_sources_that_are_no_texts_are_named(folder, value):
    file = folder / "sources_train.hkl"
    write_5(file, value)
    assert refusal(folder) == f"{file}: holds no list of texts\n    allowed: one source per frame, as text"


def test_a_file_from_another_program_is_named(folder):
    file = folder / "X_train.hkl"
    with h5py.File(file, "w") as out:
        out["frames"] = np.zeros(3)
    assert refusal(folder) == f"{file}: holds frames\n    allowed: data or data_0, as hickle writes"


def test_frames_smaller_than_asked_for_are_named(folder):
    assert refusal(folder, 32, 16).startswith(
        f"{folder / 'X_train.hkl'}: frames are 24x16, smaller than the crop 32x16\n"
    )


def test_without_h5py_the_extra_is_named(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "h5py", None)
    assert refusal(folder) == "h5py: isn't installed; it reads .hkl files\n    pip install 'ablate-study[kitti]'"


def test_the_cached_array_is_that_of_numpy(folder, empty_cache):
    kitti.film(str(folder), 24, 16)
    (file,) = empty_cache.glob("kitti-24x16-*.npy")
    assert np.array_equal(np.load(file), np.concatenate([frames("train"), frames("val")]))
    assert store.folder() == empty_cache
