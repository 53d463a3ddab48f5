"""Where two trials' inputs differ first."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors.numpy import save_file

from ablate.launch.audit_difference import first_difference

RIGHT = {
    "batch.0.index": np.arange(3),
    "batch.0.tensors.x": np.ones((3, 2), dtype=np.float32),
    "batch.10.tensors.x": np.ones((3, 2), dtype=np.float32),
    "batch.2.tensors.x": np.ones((3, 2), dtype=np.float32),
}


def changed(name, value, place=(1, 1)):
    array = RIGHT[name].copy()
    array[place[: array.ndim]] = value
    return {name: array}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ""),
        (changed("batch.0.tensors.x", 1.5), "batch 0, x[1, 1] is 1 in a, 1.5 in b"),
        (changed("batch.0.index", 7), "batch 0, samples[1] is 1 in a, 7 in b"),
        ({**changed("batch.0.index", 7), **changed("batch.0.tensors.x", 2)}, "batch 0, samples[1] is 1 in a, 7 in b"),
        ({**changed("batch.10.tensors.x", 3), **changed("batch.2.tensors.x", 2)}, "batch 2, x[1, 1] is 1 in a, 2 in b"),
        ({"batch.0.tensors.x": np.ones((3, 2))}, "batch 0, x is float32 (3, 2) in a, float64 (3, 2) in b"),
        ({"batch.0.tensors.y": np.ones(1)}, "batch 0, y is there in b only"),
        (changed("batch.0.tensors.x", -0.0), "batch 0, x[1, 1] is 1 in a, -0 in b"),
    ],
)
def test_batches(tmp_path, changes, words):
    save_file(RIGHT, tmp_path / "a")
    save_file({**RIGHT, **changes}, tmp_path / "b")
    assert first_difference(("a", "b"), (tmp_path / "a", tmp_path / "b"), (None, None)) == words


def test_weights_come_first(tmp_path):
    save_file(RIGHT, tmp_path / "a")
    save_file({**RIGHT, **changed("batch.0.index", 7)}, tmp_path / "b")
    save_file({"layer.weight": np.zeros(2, dtype=np.float32)}, tmp_path / "wa")
    save_file({"layer.weight": np.array([0, 1e-9], dtype=np.float32)}, tmp_path / "wb")
    found = first_difference(("a", "b"), (tmp_path / "a", tmp_path / "b"), (tmp_path / "wa", tmp_path / "wb"))
    assert found == "initial weights, layer.weight[1] is 0 in a, 9.99999972e-10 in b"
