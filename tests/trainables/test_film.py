import numpy as np
import pytest

from ablate.errors import BadInput
from ablate.trial.draw import Draw
from trainables import clips, photographs
from trainables.film import Film, Shot


def film(*lengths, held_out=()):
    stops = np.cumsum(lengths)
    shots = tuple(
        Shot(str(n), int(stop - length), int(stop), n in held_out)
        for n, (stop, length) in enumerate(zip(stops, lengths, strict=True))
    )
    return Film(np.zeros((int(stops[-1]), 2, 2, 3), dtype=np.uint8), shots)


def take(what, count, length, block=0):
    windows = what.training_windows(length, Draw("study", block)("start"))
    return [next(windows) for _ in range(count)]


@pytest.mark.parametrize("block", range(8))
def test_no_window_straddles_a_cut_touches_a_held_out_shot_or_one_too_short(block):
    what = film(30, 12, 107, 5, 50, held_out=(1, 4))
    allowed = [what.shots[0], what.shots[2]]
    for window in take(what, 40, 10, block):
        assert len(window) == 11
        assert np.array_equal(np.diff(window), np.ones(10))
        assert any(shot.start <= window[0] and window[-1] < shot.stop for shot in allowed)


def test_windows_are_consecutive_within_a_shot_and_shots_are_looped():
    windows = take(film(31, 41), 40, 10)
    firsts = [int(window[0]) for window in windows]
    shots = [0 if first < 31 else 1 for first in firsts]
    for (now, shot), (following, next_shot) in zip(
        zip(firsts, shots, strict=True), zip(firsts[1:], shots[1:], strict=True), strict=False
    ):
        # 30 and 40 targets: exactly three and four windows, so nothing is left out at a shot's beginning
        assert following == (now + 10 if shot == next_shot else {0: 0, 1: 31}[next_shot])
    assert set(shots) == {0, 1}


def test_frames_that_fill_no_window_are_left_out_at_a_shots_beginning_and_differ_between_loops():
    firsts = [int(window[0]) for window in take(film(28), 60, 20)][1:]  # the first is the block's start
    assert set(firsts) == set(range(8))


def test_blocks_start_at_different_frames_and_the_whole_film_is_reachable():
    starts = {int(take(film(15, 15), 1, 10, block)[0][0]) for block in range(200)}
    assert starts == {0, 1, 2, 3, 4, 15, 16, 17, 18, 19}


def test_a_window_longer_than_every_shot_is_refused():
    with pytest.raises(BadInput) as caught:
        film(20, 25).usable(30, held_out=False)
    assert str(caught.value) == (
        "window: of 30 predicted frames needs 31 without a cut; the longest training shot has 25\n"
        "    allowed: up to 24 predicted frames"
    )


def test_a_film_with_nothing_held_out_says_so():
    with pytest.raises(BadInput, match="the longest held-out shot has 0"):
        film(50).usable(10, held_out=True)


def test_the_digest_depends_on_frames_and_shots():
    one, other = film(30), film(10, 20)
    brighter = Film(one.frames + np.uint8(1), one.shots)
    assert len({one.digest(), other.digest(), brighter.digest()}) == 3
    assert one.digest() == film(30).digest()


def test_pictures_are_channels_first_and_scaled_to_1():
    frames = np.arange(2 * 4 * 5 * 3, dtype=np.uint8).reshape(2, 4, 5, 3)
    got = Film(frames, ()).pictures(np.array([[1], [0]]))
    assert got.shape == (2, 1, 3, 4, 5)
    assert got.dtype == np.float32
    assert got[0, 0, 2, 3, 1] == np.float32(frames[1, 3, 1, 2]) / np.float32(255)


def test_the_clips_are_split_by_shot_and_the_cuts_are_where_the_picture_changes(cache):
    what = clips.film(24, 16)
    assert what.frames.shape == (370, 16, 24, 3)
    assert what.frames.dtype == np.uint8
    assert [(shot.start, shot.stop) for shot in what.shots] == [
        (0, 30), (30, 76), (76, 137), (137, 187), (187, 242), (242, 250), (250, 370)
    ]  # fmt: skip
    assert [shot.name for shot in what.shots if shot.held_out] == ["bikes-4"]
    change = np.abs(np.diff(what.frames.astype(int), axis=0)).mean(axis=(1, 2, 3))
    assert set(np.flatnonzero(change > 40) + 1) == {shot.start for shot in what.shots[1:]}


def test_a_photograph_is_held_out_whole_and_each_shot_stays_within_one(cache):
    what = photographs.film(24, 16, 1)
    assert len(what.frames) == what.shots[-1].stop == 121 * 12
    assert {shot.name.rsplit("-", 1)[0] for shot in what.shots if shot.held_out} == {"coffee"}
    assert sum(shot.held_out for shot in what.shots) == 3
