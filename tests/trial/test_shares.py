"""How a batch's rows are shared out among a trial's workers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ablate.trial.effect import ArmNotInEffect
from ablate.trial.protocol import Batch
from ablate.trial.workers import share, shares, weights


def test_shares_are_neighbours_that_cover_every_row_once() -> None:
    for rows in range(1, 12):
        for workers in range(1, rows + 1):
            taken = [row for one in shares(rows, workers) for row in range(rows)[one]]
            assert taken == list(range(rows))
            assert max(weights(rows, workers)) - min(weights(rows, workers)) <= 1


def test_a_share_is_rows_of_the_index_and_of_every_tensor() -> None:
    batch = Batch(np.arange(5), {"x": torch.arange(10).reshape(5, 2)})
    assert share(batch, 0, 2).index.tolist() == [0, 1, 2]
    assert share(batch, 1, 2).tensors["x"].tolist() == [[6, 7], [8, 9]]


def test_a_tensor_with_other_rows_is_refused() -> None:
    batch = Batch(np.arange(5), {"x": torch.zeros(4, 2)})
    with pytest.raises(ArmNotInEffect) as caught:
        share(batch, 0, 2)
    assert "tensor 'x' has shape (4, 2) and the index 5 entries" in str(caught.value)
