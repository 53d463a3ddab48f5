"""What the shipped trainables show: fixed held-out inputs, and what the model makes of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from trainables.autoencoder import Autoencoder
from trainables.film_strip import FRAMES, frames_looked_at
from trainables.prednet import PredNet
from trainables.prednet_keras import PredNetKeras

torch.set_num_threads(1)
pytestmark = pytest.mark.usefixtures("cache")
SMALL: dict[str, Any] = {"source": "photographs", "width": 24, "height": 16, "channels": "3,4"}


def look(trainable: Any) -> dict[str, Any]:
    torch.manual_seed(0)
    model = trainable.build()
    with torch.no_grad():
        return {name: torch.as_tensor(one.values) for name, one in trainable.look(model, lambda x: x).items()}


def test_the_autoencoder_shows_held_out_digits_and_their_reconstructions() -> None:
    trainable = Autoencoder()
    found = look(trainable)
    assert list(found) == ["input", "reconstruction"]
    assert found["input"].shape == found["reconstruction"].shape == (10, 1, 28, 28)
    images = trainable.images
    held_out = images.floats(images.held_out)
    rows = [np.flatnonzero((held_out == digit).all(1)) for digit in found["input"].reshape(10, -1).numpy()]
    assert [int(images.labels[images.held_out[row[0]]]) for row in rows] == list(range(10))
    error = float((found["input"] - found["reconstruction"]).square().mean())
    assert 0.05 < error < 0.5  # an untrained model's


@pytest.mark.parametrize(
    ("trainable", "length"),
    [(PredNet(window=6, **SMALL), 6), (PredNetKeras(nt=7, batch_size=1, **SMALL), 6), (PredNet(window=2, **SMALL), 2)],
)
def test_prednet_shows_frames_that_were_never_trained_on(trainable: Any, length: int) -> None:
    found, film = look(trainable), trainable.film()
    assert list(found) == ["target", "prediction", "error"]
    shot, (window, *_) = next(film.held_out_windows(length))
    frames = window[1:][frames_looked_at(length)]
    assert shot.held_out
    assert (frames < shot.stop).all()
    assert found["target"].numpy().tobytes() == film.pictures(frames).tobytes()
    assert found["prediction"].shape == found["target"].shape
    expected = (found["target"] - found["prediction"]).abs().mean(1, keepdim=True)
    assert found["error"].numpy().tobytes() == expected.numpy().tobytes()


def test_the_predictions_are_those_that_the_loss_is_about() -> None:
    """With every frame kept, the mean squared error of what is shown is the loss of that window, to rounding."""
    trainable = PredNet(window=FRAMES, **SMALL)
    found, film = look(trainable), trainable.film()
    _, (window, *_) = next(film.held_out_windows(FRAMES))
    torch.manual_seed(0)
    model = trainable.build()
    from ablate.trial.protocol import Batch

    batch = Batch(window, {"frames": torch.from_numpy(film.pictures(window[:, None]))})
    with torch.no_grad():
        loss, _ = trainable.loss(model, batch, None)
    shown = float((found["target"].double() - found["prediction"].double()).square().mean())
    assert shown == pytest.approx(float(loss), rel=1e-5)


@pytest.mark.parametrize(
    ("length", "expected"), [(1, [0]), (2, [0, 1]), (4, [0, 1, 2, 3]), (6, [0, 2, 3, 5]), (20, [4, 9, 14, 19])]
)
def test_frames_are_spread_and_the_last_is_among_them(length: int, expected: list[int]) -> None:
    np.testing.assert_array_equal(frames_looked_at(length), expected)
