"""Hashes that prove the pairing, and the smallest perturbation there is."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import xxhash
from torch import nn

from ablate.trial.draw import Draw
from ablate.trial.fingerprint import TOGETHER, OrderChain, content_hash, model_hash, one_ulp, state


def test_a_permuted_batch_has_another_hash() -> None:
    x = torch.arange(6.0).reshape(3, 2)
    assert content_hash({"x": x}) == content_hash({"x": x.clone()})
    assert content_hash({"x": x}) != content_hash({"x": x[[1, 0, 2]]})
    assert content_hash({"x": x}) != content_hash({"x": x.reshape(2, 3)})
    assert content_hash({"x": x}) != content_hash({"y": x})
    assert content_hash({"x": x, "y": x}) == content_hash({"y": x, "x": x})


def test_layout_in_memory_does_not_change_a_hash() -> None:
    x = torch.randn(4, 3, 5, 5)
    assert content_hash({"x": x}) == content_hash({"x": x.to(memory_format=torch.channels_last)})


def test_empty_and_integer_tensors_are_hashed() -> None:
    assert content_hash({"x": torch.empty(0, 3)}) != content_hash({"x": torch.empty(3, 0)})
    assert content_hash({"x": torch.tensor([1])}) != content_hash({"x": torch.tensor([2])})


def test_the_order_chain_covers_every_batch_and_stream_position() -> None:
    def chain(indices: list[list[int]], draws: int) -> int:
        draw = Draw("s", 0)
        order = OrderChain(draw)
        for index in indices:
            draw("x").uniform((draws,))
            order.add(np.array(index))
        return order.digest

    assert chain([[1, 2], [3]], 4) == chain([[1, 2], [3]], 4)
    assert chain([[1, 2], [3]], 4) != chain([[2, 1], [3]], 4)
    assert chain([[1, 2], [3]], 4) != chain([[1], [2, 3]], 4)
    assert chain([[1, 2], [3]], 4) != chain([[1, 2], [3]], 5)


def test_the_order_chain_is_the_one_that_stores_hold() -> None:
    draw = Draw("s", 0)
    order, digest = OrderChain(draw), 0
    for number, index in enumerate(([3, 1, 2], [], [7])):
        draw("a %d" if number == 2 else "y").uniform((5,))  # a stream that is asked for late sorts before the other
        order.add(np.array(index, dtype=np.int64))
        content = digest.to_bytes(8, "little") + f"{len(index)}|".encode() + np.array(index, dtype=np.int64).tobytes()
        content += "".join(f"{name}:{draw(name).count}|" for name in sorted(draw.streams)).encode()
        digest = xxhash.xxh3_64_intdigest(content)
        assert order.digest == digest


def test_the_order_chain_is_the_same_whenever_it_is_asked_for() -> None:
    """Whoever asks after each batch, as a GPU arm does, gets the hash of one who asks at the end."""

    def chain(asks: bool) -> list[int]:
        draw, found = Draw("s", 0), []
        order, index = OrderChain(draw), np.zeros(3, dtype=np.int64)
        for number in range(2 * TOGETHER + 5):
            index[:] = number  # a trainable may use one array again and again
            draw(f"stream {number // 50} of 100 %d").uniform((number % 3,))
            order.add(index)
            found += [order.digest] if asks or number % 60 == 59 else []
        return [*found, order.digest]

    asked, seldom = chain(True), chain(False)
    assert seldom == [asked[59], asked[119], asked[-1]]
    assert len(set(asked)) == 2 * TOGETHER + 5


def test_a_batch_without_samples_still_counts() -> None:
    one, two = OrderChain(Draw("s", 0)), OrderChain(Draw("s", 0))
    one.add(np.array([], dtype=np.int64))
    two.add(np.array([], dtype=np.int64))
    two.add(np.array([], dtype=np.int64))
    assert one.digest != two.digest


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_one_ulp_moves_every_element_to_a_neighbour(dtype: torch.dtype) -> None:
    model = nn.Linear(40, 30).to(dtype)
    with torch.no_grad():
        model.bias[:2] = torch.tensor([1.0, -1.0])  # powers of two, where neighbours are uneven
    before = {name: tensor.detach().clone() for name, tensor in model.named_parameters()}
    one_ulp(sorted(model.named_parameters()), Draw("s", 0))
    ups = 0
    for name, after in model.named_parameters():
        up = torch.nextafter(before[name], torch.full_like(before[name], torch.inf))
        down = torch.nextafter(before[name], torch.full_like(before[name], -torch.inf))
        assert torch.logical_or(after == up, after == down).all()
        ups += int((after == up).sum())
    # statistical: 1230 fair draws, standard deviation 17.5
    assert abs(ups - 615) < 4 * 17.5


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_one_ulp_moves_a_zero_by_the_last_place_of_the_median_magnitude(dtype: torch.dtype) -> None:
    weight = nn.Parameter(torch.tensor([0.0, -0.0, 0.0, 0.0, 1e-3, 0.3, -0.3, 1000.0, 0.3], dtype=dtype))
    one_ulp([("w", weight)], Draw("s", 0))
    place = torch.finfo(dtype).eps / 4  # 0.3 is in [1/4, 1/2)
    assert weight[:4].abs().tolist() == [place] * 4
    assert set(weight[:4].detach().sign().tolist()) == {-1.0, 1.0}  # of this stream's draws


def test_one_ulp_leaves_a_tensor_of_zeros_and_an_empty_one_alone() -> None:
    tensors = [nn.Parameter(torch.zeros(3)), nn.Parameter(torch.empty(0)), nn.Parameter(torch.zeros(()))]
    one_ulp([(str(k), one) for k, one in enumerate(tensors)], Draw("s", 0))
    assert all(not one.any() for one in tensors)


def test_one_ulp_is_the_same_for_the_same_block_and_another_for_another() -> None:
    def moved(block: int) -> str:
        model = nn.Linear(4, 4)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.fill_(1.0)
        one_ulp(sorted(model.named_parameters()), Draw("s", block))
        return model_hash(model)

    assert moved(0) == moved(0) != moved(1)


def test_tied_weights_and_buffers_are_counted_once() -> None:
    model = nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.Linear(2, 2), "norm": nn.BatchNorm1d(2)})
    model["b"].weight = model["a"].weight
    assert "b.weight" not in state(model)
    assert {"norm.running_mean", "norm.num_batches_tracked"} <= set(state(model))
