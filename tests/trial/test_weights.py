"""Initial weights are made once, stored under their hash and loaded bit for bit."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from ablate.trial.fingerprint import model_hash
from ablate.trial.weights import WeightsMismatch, restore, seed_global_generators, store


def test_parameters_and_buffers_come_back_bit_for_bit(tmp_path: Path) -> None:
    seed_global_generators("s", 0)
    made = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    made[1].register_buffer("hidden", torch.rand(2), persistent=False)
    digest = store(made, tmp_path)
    seed_global_generators("s", 1)
    other = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    other[1].register_buffer("hidden", torch.rand(2), persistent=False)
    assert model_hash(other) != model_hash(made)
    restore(other, tmp_path / f"{digest}.safetensors")
    assert model_hash(other) == model_hash(made)


def test_equal_weights_share_a_file(tmp_path: Path) -> None:
    model = nn.Linear(2, 2)
    assert store(model, tmp_path) == store(model, tmp_path)
    assert len(list(tmp_path.iterdir())) == 1


def test_tied_weights_are_stored_and_stay_tied(tmp_path: Path) -> None:
    def tied() -> nn.ModuleList:
        model = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])
        model[1].weight = model[0].weight
        return model

    first, second = tied(), tied()
    restore(second, tmp_path / f"{store(first, tmp_path)}.safetensors")
    assert torch.equal(second[1].weight, first[0].weight)
    assert second[1].weight is second[0].weight


def test_another_model_is_refused_by_name(tmp_path: Path) -> None:
    digest = store(nn.Linear(2, 2), tmp_path)
    with pytest.raises(WeightsMismatch) as caught:
        restore(nn.Linear(2, 3), tmp_path / f"{digest}.safetensors")
    assert "build() made ((3,), 'torch.float32') for 'bias', stored is ((2,), 'torch.float32') (2 names differ)" in str(
        caught.value
    )
    assert "build() must depend on the settings alone" in str(caught.value)


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / f"{store(nn.Linear(2, 2), tmp_path)}.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(WeightsMismatch, match="not the one in its name\n    Delete it and launch again"):
        restore(nn.Linear(2, 2), path)
