from pathlib import Path

import numpy as np
import pytest

from ablate.errors import BadInput
from trainables.photographs import SHOT_FRAMES, moving_crop

FILE = Path("picture.png")


def picture(height, width):
    columns = np.broadcast_to(np.arange(width, dtype=np.uint8)[None, :, None], (height, width, 3))
    return np.ascontiguousarray(columns)


@pytest.mark.parametrize("speed", [0, 1, 2, 7])
def test_the_window_moves_by_speed_pixels_a_frame_and_turns_at_the_edges(speed):
    room = 50 - 8
    shot = moving_crop(picture(20, 50), 8, 4, speed, 2, FILE)
    assert shot.shape == (SHOT_FRAMES, 4, 8, 3)
    lefts = shot[:, 0, 0, 0].astype(int)
    wanted, left, step = [], room // 2, 1
    for _ in range(SHOT_FRAMES):
        wanted.append(left)
        for _ in range(speed):
            step = -1 if left == room else 1 if left == 0 else step
            left += step
    assert lefts.tolist() == wanted


def test_every_pixel_shown_is_one_of_the_photograph():
    source = np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)
    shot = moving_crop(source, 8, 4, 1, 1, FILE)
    assert np.array_equal(shot[0], source[4:8, 11:19])


def test_a_crop_as_large_as_the_picture_stands_still():
    source = picture(4, 8)
    assert all(np.array_equal(frame, source) for frame in moving_crop(source, 8, 4, 3, 1, FILE))


def test_a_picture_smaller_than_the_crop_is_refused():
    with pytest.raises(BadInput) as caught:
        moving_crop(picture(20, 50), 64, 16, 1, 1, FILE)
    assert (
        str(caught.value) == "picture.png: is 50x20, smaller than the crop 64x16\n    choose a smaller width and height"
    )


def test_below_one_pixel_a_frame_the_window_moves_now_and_then():
    shot = moving_crop(picture(20, 50), 8, 4, 0.1, 2, FILE)
    moved = [i for i in range(1, len(shot)) if (shot[i] != shot[i - 1]).any()]
    assert moved == list(range(10, len(shot), 10))
