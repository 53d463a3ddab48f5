"""Permuted rows: the same samples in another order, declared, and refused where rows are no samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from perturbed import run
from perturbed_trainables import Samples, Silent

from ablate.trial.draw import Draw
from ablate.trial.effect import ArmNotInEffect
from ablate.trial.permuted import STREAM, check_independent_rows, permuted
from ablate.trial.protocol import Batch
from tests.tolerances import numerical
from trainables.autoencoder import Autoencoder
from trainables.prednet import PredNet

torch.set_num_threads(1)


def test_every_tensor_and_the_index_are_in_the_same_new_order() -> None:
    index = np.arange(50) * 3
    batch = Batch(
        index, {"x": torch.from_numpy(index), "image": torch.from_numpy(index)[:, None, None].expand(50, 2, 2)}
    )
    found = permuted(batch, Draw("s", 0)(STREAM))
    assert sorted(found.index.tolist()) == index.tolist()
    assert found.index.tolist() != index.tolist()
    assert found.tensors["x"].tolist() == found.index.tolist()
    assert (found.tensors["image"] == found.tensors["x"][:, None, None]).all()
    assert batch.index.tolist() == batch.tensors["x"].tolist() == index.tolist()  # the given one is as it was


def test_each_batch_gets_another_order_and_the_same_one_in_every_run() -> None:
    batch = Batch(np.arange(20), {})
    stream = Draw("s", 0)(STREAM)
    orders = [permuted(batch, stream).index.tolist() for _ in range(3)]
    assert len({tuple(order) for order in orders}) == 3
    assert permuted(batch, Draw("s", 0)(STREAM)).index.tolist() == orders[0]


@pytest.mark.parametrize("trainable", ["Samples", "rows_in_a_function"])
def test_a_trial_sees_other_rows_first_and_proves_the_same_data_order(tmp_path: Path, trainable: str) -> None:
    name = f"perturbed_trainables:{trainable}"
    _, plain, before = run(tmp_path / "a", name)
    end, rows, columns = run(tmp_path / "b", name, perturb="permute-rows")
    assert end.status == "done"
    assert (rows["metric.first"] != plain["metric.first"]).any()
    # numerical: sums of 6 squares and products in another order, over 4 steps; a mean of squares doubles a residual's
    # relative error, and the step that made it another time
    np.testing.assert_allclose(rows["loss"], plain["loss"], rtol=numerical(2.0**-24, 6 * 4, conditioning=4))
    assert (rows["order_hash"] == plain["order_hash"]).all()
    assert rows["content_hash"][0] == plain["content_hash"][0]  # hashed as the trainable made it
    for column in ("initial_hash", "order_hash", "draw_hash"):
        assert columns[column] == before[column], column
    assert before["perturbation_hash"] is None
    assert columns["perturbation_hash"] is not None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rows": 1}, "but the index names 1 sample\n"),
        ({"extra": "scalar"}, "but tensor 'extra' has shape () and the index 6 entries\n"),
        ({"extra": "longer"}, "but tensor 'extra' has shape (7,) and the index 6 entries\n"),
    ],
)
def test_a_batch_whose_rows_are_no_samples_is_refused(tmp_path: Path, settings: dict[str, Any], message: str) -> None:
    end, _, _ = run(tmp_path, "perturbed_trainables:Samples", settings=settings, perturb="permute-rows")
    assert end.status == "failed"
    assert f"batch 0:\nperturb: asked for permute-rows, {message}" in end.error
    assert "allowed: batches of 2 or more rows, one for each entry of the index" in end.error


def test_a_trainable_that_does_not_say_so_is_refused_before_its_first_batch(tmp_path: Path) -> None:
    end, rows, _ = run(tmp_path, "perturbed_trainables:Silent", perturb="permute-rows")
    assert end.status == "failed"
    assert len(rows) == 0
    assert "Silent does not say that the rows of its batches are independent" in end.error
    assert "Set Silent.independent_rows = True if row i of every tensor of a batch is sample index[i]" in end.error


def test_the_rows_of_a_window_of_video_are_frames_and_stay_in_order() -> None:
    check_independent_rows(Autoencoder)
    check_independent_rows(Samples)
    for trainable in (PredNet, Silent):
        with pytest.raises(ArmNotInEffect):
            check_independent_rows(trainable)
