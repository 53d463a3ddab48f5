"""Diversity and coverage against values that can be had without them."""

import math

import numpy as np
import pytest

from trainables import mnist
from trainables.diversity import NEIGHBOURS, RealImages


@pytest.fixture
def real():
    return np.random.default_rng(0).random((40, 9))


def test_one_image_over_and_over_has_no_diversity_and_covers_at_most_its_own_neighbourhoods(real):
    same = np.repeat(real[3:4], 30, axis=0)
    found = RealImages(real)
    assert found.diversity(same) == 0
    distances = np.sort(np.sqrt(((real[:, None] - real[None]) ** 2).sum(-1)), axis=1)
    radius = distances[:, NEIGHBOURS]  # after the image itself
    expected = np.mean([np.sqrt(((one - real[3]) ** 2).sum()) <= r for one, r in zip(real, radius, strict=True)])
    assert found.coverage(same) == expected < 0.5
    assert found.coverage(np.full((30, 9), 1e3)) == 0


def test_the_real_images_as_samples_have_all_of_both(real):
    assert RealImages(real).diversity(real) == 1
    assert RealImages(real).coverage(real) == 1


def test_diversity_is_a_ratio_of_mean_distances():
    """Two points 3 and 4 along the axes are 5 apart; on a line 0, 1, 2 the mean distance is 4/3."""
    line = np.array([[0.0], [1.0], [2.0]])
    assert RealImages(line, k=1).diversity(np.array([[10.0], [12.0]])) == pytest.approx(2 / (4 / 3), abs=1e-15)
    plane = RealImages(np.array([[0.0, 0.0], [3.0, 4.0]]), k=1)
    assert plane.diversity(np.array([[0.0, 0.0], [0.0, 1.0]])) == 1 / 5


def test_coverage_counts_real_images_within_the_distance_of_their_kth_neighbour():
    """On the line 0, 1, 3, 7, 15 nearest neighbours are 1, 1, 2, 4, 8 away, second nearest 3, 2, 3, 6, 12."""
    line = np.array([[0.0], [1.0], [3.0], [7.0], [15.0]])
    assert RealImages(line, k=1).coverage(np.array([[1.5]])) == 2 / 5  # 1 and 3; 0 is 1.5 away, 7 and 15 farther
    assert RealImages(line, k=1).coverage(np.array([[3.0]])) == 2 / 5  # 3 and 7, which is exactly 4 away
    assert RealImages(line, k=2).coverage(np.array([[3.0]])) == 1  # all but 0 and 15 within, these exactly
    assert RealImages(line, k=1).coverage(np.array([[1.5], [11.0]])) == 4 / 5


def test_samples_drawn_like_the_real_images_cover_as_many_as_naeem_et_al_derive():
    """Mean over 200 sets of 60, with its standard error; a generator that gives half of space is told apart."""
    generator, n, k = np.random.default_rng(1), 60, NEIGHBOURS
    expected = 1 - math.prod(n - i for i in range(1, k + 1)) / math.prod(2 * n - i for i in range(1, k + 1))
    good, half = [], []
    for _ in range(200):
        real = RealImages(generator.random((n, 2)))
        samples = generator.random((n, 2))
        good.append(real.coverage(samples))
        half.append(real.coverage(samples * [0.5, 1]))
    error = np.std(good, ddof=1) / math.sqrt(len(good))
    assert abs(np.mean(good) - expected) < 4 * error
    assert abs(np.mean(half) - expected) > 20 * error


def test_it_is_computed_in_float64(real):
    """In float32 images this close would be 0 apart."""
    near = np.stack([np.full(9, 1.0), np.full(9, 1.0 + 1e-12)])
    expected = 3 * 1e-12 / np.mean([np.linalg.norm(a - b) for i, a in enumerate(real) for b in real[i + 1 :]])
    assert RealImages(real).diversity(near) == pytest.approx(expected, rel=1e-3)  # 1e-12 is 4504 ulps of 1


def test_too_few_images_and_equal_ones_are_refused(real):
    with pytest.raises(ValueError, match="5 real images, but each is asked for its neighbour number 5"):
        RealImages(real[:5])
    with pytest.raises(ValueError, match="all real images are the same"):
        RealImages(np.ones((10, 4)))


def test_of_digits_one_blurred_image_covers_almost_half_but_has_no_diversity():
    """Why coverage on pixels goes with diversity, never alone; digits not trained on cover what others like them do."""
    digits = mnist.load()
    held_out, train = (digits.floats(rows) for rows in (digits.held_out[::2], digits.train))
    real = RealImages(held_out)
    blur = train.mean(axis=0, keepdims=True).repeat(500, axis=0)
    assert real.diversity(blur) == 0
    assert 0.4 < real.coverage(blur) < 0.5
    assert 0.9 < real.coverage(train[::8]) < 1
    assert 0.95 < real.diversity(train[::8]) < 1.05
