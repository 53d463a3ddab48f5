"""Tensors of a batch come to the arm's precision; a batch that has it is not made anew."""

from __future__ import annotations

import pytest
import torch

from ablate.design.trial_spec import Numerics
from ablate.trial.place import batch_placer, placer

CPU = torch.device("cpu")


def test_a_batch_that_is_as_the_arm_wants_it_comes_back_itself() -> None:
    place = placer(Numerics(), CPU)
    tensors = {"x": torch.rand(3), "label": torch.arange(3), "mask": torch.tensor([True])}
    assert batch_placer(Numerics(), CPU, place)(tensors) is tensors


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_one_tensor_of_another_precision_is_cast_and_the_others_stay(dtype: torch.dtype) -> None:
    place = placer(Numerics(), CPU)
    tensors = {"x": torch.rand(3), "y": torch.rand(3).to(dtype), "label": torch.arange(3)}
    placed = batch_placer(Numerics(), CPU, place)(tensors)
    assert list(placed) == ["x", "y", "label"]
    assert placed["x"] is tensors["x"]
    assert placed["label"] is tensors["label"]
    assert placed["y"].dtype == torch.float32
    assert torch.equal(placed["y"], tensors["y"].float())
    assert tensors["y"].dtype == dtype


def test_a_layout_is_given_where_the_arm_asks_for_one() -> None:
    numerics = Numerics(memory_format="channels_last")
    placed = batch_placer(numerics, CPU, placer(numerics, CPU))({"x": torch.rand(2, 3, 4, 5), "y": torch.rand(3)})
    assert placed["x"].is_contiguous(memory_format=torch.channels_last)
    assert not placed["x"].is_contiguous()


def test_every_tensor_is_placed_as_it_would_be_by_itself() -> None:
    for numerics in (Numerics(), Numerics(precision="float64"), Numerics(precision="bfloat16")):
        place = placer(numerics, CPU)
        tensors = {"x": torch.rand(3), "z": torch.rand(3).to(torch.complex64), "n": torch.arange(3)}
        placed = batch_placer(numerics, CPU, place)(tensors)
        for name, tensor in tensors.items():
            alone = place(tensor)
            assert placed[name].dtype == alone.dtype
            assert torch.equal(placed[name], alone)
