"""channels_last: kernels and images lie in memory as asked, values and hashes stay, and it is never a silent no-op."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from perturbed import run
from torch import nn

from ablate.trial.effect import ArmNotInEffect
from ablate.trial.memory_format import laid_out, lay_out
from tests.tolerances import numerical

torch.set_num_threads(1)


def test_only_4d_tensors_are_laid_out_and_values_stay() -> None:
    images = torch.randn(2, 3, 4, 5)
    found = laid_out(images, "channels_last")
    assert found.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(found, images)
    assert laid_out(found, "channels_last").data_ptr() == found.data_ptr()
    assert laid_out(images, "contiguous") is images  # memory shared with the trainable stays shared
    for other in (torch.randn(3, 4), torch.randn(1, 2, 3, 4, 5), torch.ones(2, 2).to_sparse()):
        assert laid_out(other, "channels_last") is other


def test_a_model_keeps_its_parameters_and_its_values() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Linear(2, 2))
    before = {name: (parameter, parameter.detach().clone()) for name, parameter in model.named_parameters()}
    lay_out(model, "channels_last")
    for name, parameter in model.named_parameters():
        assert parameter is before[name][0]
        assert torch.equal(parameter, before[name][1])
    assert model[0].weight.is_contiguous(memory_format=torch.channels_last)
    assert not model[0].weight.is_contiguous()


def test_a_model_without_kernels_is_refused() -> None:
    with pytest.raises(ArmNotInEffect, match="asked for channels_last, but no parameter of the model has 4 dimensions"):
        lay_out(nn.Linear(2, 2), "channels_last")
    lay_out(nn.Linear(2, 2), "contiguous")


def test_a_layout_that_does_not_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ablate.trial.memory_format.laid_out", lambda tensor, asked: tensor)
    with pytest.raises(ArmNotInEffect, match="parameter 'weight' has another layout"):
        lay_out(nn.Conv2d(3, 4, 3), "channels_last")


def test_a_trial_computes_in_that_layout_and_proves_the_same_data(tmp_path: Path) -> None:
    name = "perturbed_trainables:Conv"
    _, plain, before = run(tmp_path / "a", name)
    end, rows, columns = run(tmp_path / "b", name, memory_format="channels_last")
    assert end.status == "done"
    assert (plain["metric.first"] == 0).all()
    assert (rows["metric.first"] == 1).all()
    # numerical: sums of 27 products in a kernel's place, and of 24 values of a channel in BatchNorm
    np.testing.assert_allclose(rows["loss"][0], plain["loss"][0], rtol=numerical(2.0**-24, 27 + 24))
    for column in ("initial_hash", "order_hash", "draw_hash", "perturbation_hash"):
        assert columns[column] == before[column], column
    assert rows["content_hash"][0] == plain["content_hash"][0]
