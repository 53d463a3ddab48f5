"""Frames that PredNet is looked at on: what came next, what was predicted, and how far off that is at each pixel."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from ablate.trial.protocol import Images, Maps, Shown

FRAMES = 4


def frames_looked_at(length: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return which of ``length`` predicted frames are kept: evenly spread, the last among them, not the blank first."""
    return np.unique(np.linspace(length / FRAMES, length, FRAMES).astype(np.int64).clip(1)) - 1


def film_strip(target: Tensor, prediction: Tensor) -> dict[str, Shown]:
    """Return target, prediction and the mean absolute error over colours.

    Args:
        target: (N, 3, H, W) in [0, 1].
        prediction: likewise, on the CPU in float32.
    """
    error = (target - prediction).abs().mean(dim=1, keepdim=True)
    return {"target": Images(target), "prediction": Images(prediction), "error": Maps(error)}
