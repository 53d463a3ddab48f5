from fractions import Fraction

import numpy as np
import pytest

from ablate.errors import BadInput
from ablate.trial.draw import Draw
from trainables import video_folder
from trainables.prednet import PredNet

av = pytest.importorskip("av", reason="the video extra isn't installed")


def write_avi(file, pictures, codec="mpeg4"):
    """An AVI file as cameras write them; pictures uint8 (N, H, W, 3)."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(file), "w") as out:
        stream = out.add_stream(codec, rate=Fraction(25))
        stream.height, stream.width = pictures.shape[1:3]
        stream.pix_fmt = "yuvj420p" if codec == "mjpeg" else "yuv420p"
        for picture in pictures:
            for packet in stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")):
                out.mux(packet)
        for packet in stream.encode():
            out.mux(packet)
    return file


def gray(count, start=20, height=16, width=24):
    levels = (start + 2 * np.arange(count)).astype(np.uint8)
    return np.broadcast_to(levels[:, None, None, None], (count, height, width, 3)).copy()


@pytest.fixture
def folder(tmp_path, empty_cache):
    """Three files in two folders; their grey levels say which frame it is."""
    root = tmp_path / "films"
    write_avi(root / "b.avi", gray(12, 100))
    write_avi(root / "a" / "z.AVI", gray(9, 20))
    write_avi(root / "c.avi", gray(10, 180))
    (root / "notes.txt").write_text("not a video")
    return root


def refusal(folder, width=24, height=16, **kwargs):
    with pytest.raises(BadInput) as caught:
        video_folder.film(str(folder), width, height, **kwargs)
    return str(caught.value)


def test_files_are_shots_in_the_order_of_their_paths_and_the_last_is_held_out(folder):
    film = video_folder.film(str(folder), 24, 16)
    assert [(s.name, s.start, s.stop, s.held_out) for s in film.shots] == [
        ("a/z.AVI@0", 0, 9, False), ("b.avi@9", 9, 21, False), ("c.avi@21", 21, 31, True)
    ]  # fmt: skip
    expected = np.concatenate([gray(9, 20), gray(12, 100), gray(10, 180)])
    assert np.abs(film.frames.astype(int) - expected).max() <= 4  # lossy, and YUV


@pytest.mark.parametrize("files", [2, 9, 20, 113])
def test_a_tenth_of_the_files_is_held_out_at_least_one(tmp_path, files):
    paths = [tmp_path / f"{n:03}.avi" for n in range(files)]
    shots = video_folder._shots(tmp_path, paths, [(n, 5 * n, 5 * n + 5) for n in range(files)])
    held_out = [shot.held_out for shot in shots]
    assert sum(held_out) == max(1, files // 10)
    assert held_out == sorted(held_out)


def test_they_are_decoded_once_and_again_when_a_file_changes(folder, monkeypatch):
    first = video_folder.film(str(folder), 24, 16)
    with monkeypatch.context() as patch:
        patch.setattr(video_folder, "decode", lambda *_, **__: pytest.fail("decoded again"))
        again = video_folder.film(str(folder), 24, 16)
    assert again.digest() == first.digest()
    assert isinstance(again.frames, np.memmap)
    write_avi(folder / "c.avi", gray(11, 150))
    assert video_folder.film(str(folder), 24, 16).shots[-1].stop == 32


def test_shots_are_found_again_if_only_the_frames_were_kept(folder, empty_cache):
    first = video_folder.film(str(folder), 24, 16)
    (shots,) = empty_cache.glob("*-shots.npy")
    shots.unlink()
    assert video_folder.film(str(folder), 24, 16).shots == first.shots


def test_cuts_are_detected_if_asked_for_and_one_file_then_suffices(tmp_path, empty_cache):
    write_avi(tmp_path / "one.avi", np.concatenate([gray(8, 20), gray(7, 180), gray(9, 60)]))
    film = video_folder.film(str(tmp_path), 24, 16, cut="detect")
    assert [(s.start, s.stop, s.held_out) for s in film.shots] == [(0, 8, False), (8, 15, False), (15, 24, True)]
    assert refusal(tmp_path) == (
        f"{tmp_path / 'one.avi'}: is one shot, so nothing can be held out\n    allowed: two shots or more\n"
        "    add another video, or write `cuts: detect`"
    )


def test_only_so_many_frames_of_each_file_are_read(folder):
    assert [s.stop - s.start for s in video_folder.film(str(folder), 24, 16, most=5).shots] == [5, 5, 5]


def test_full_range_video_as_of_many_cameras_is_read_as_such(tmp_path, empty_cache):
    pictures = np.stack([np.full((16, 24, 3), rgb, np.uint8) for rgb in [(0, 0, 0), (255, 255, 255), (200, 60, 30)]])
    for name in "ab":
        write_avi(tmp_path / f"{name}.avi", pictures, codec="mjpeg")
    film = video_folder.film(str(tmp_path), 24, 16)
    assert np.abs(film.frames[:3].astype(int) - pictures).max() <= 8


def test_prednet_trains_on_a_folder(folder):
    thing = PredNet(source="folder", path=str(folder), width=24, height=16, channels="3,4", window=6)
    assert thing.prepare() == thing.film().digest()
    batches = thing.batches(Draw("study", 0))
    for _ in range(8):
        index = next(batches).index
        assert any(shot.start <= index[0] and index[-1] < shot.stop for shot in thing.film().shots[:2])
    assert set(thing.evaluate(thing.build(), lambda tensor: tensor)) == {"held_out_loss"}


def test_a_missing_or_empty_folder_is_named(tmp_path):
    assert refusal(tmp_path / "none") == f"{tmp_path / 'none'}: no such folder\n    allowed: a folder of videos"
    (tmp_path / "x.txt").write_text("")
    suffixes = ", ".join(video_folder.SUFFIXES)
    assert refusal(tmp_path) == f"{tmp_path}: holds no video\n    allowed: files that end in {suffixes}"


def test_a_video_too_short_for_a_window_is_named_before_any_trial(folder):
    with pytest.raises(BadInput) as caught:
        PredNet(source="folder", path=str(folder), width=24, height=16, channels="3,4", window=10).prepare()
    advice = "    take it out of the folder, or choose a shorter window"
    assert str(caught.value) == (
        f"{folder / 'a' / 'z.AVI'}: has 9 frames, and a window needs 11\n{advice}\n"
        f"{folder / 'c.avi'}: has 10 frames, and a window needs 11\n{advice}"
    )


@pytest.mark.parametrize("kept", [0.0, 0.02, 0.6])
def test_a_truncated_video_is_named(folder, empty_cache, kept):
    file = folder / "b.avi"
    file.write_bytes(file.read_bytes()[: int(kept * file.stat().st_size)])
    text = refusal(folder)
    assert text.startswith(f"{file}: ")
    assert "truncated" in text
    assert not list(empty_cache.iterdir())  # nothing half-written is left


def test_a_video_without_frames_is_named(folder, y4m):
    file = y4m(np.zeros((0, 24, 24), np.uint8), name="films/aa.y4m")
    assert refusal(folder) == f"{file}: holds no frames\n    allowed: a video with at least one frame"


def test_frames_smaller_than_asked_for_are_named(folder):
    text = refusal(folder, 32, 16)
    assert text.startswith(f"{folder / 'a' / 'z.AVI'}: frames are 24x16, smaller than the crop 32x16\n")
