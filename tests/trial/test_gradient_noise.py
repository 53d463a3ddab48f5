"""Rounding noise on purpose: of the size asked for, from a stream of its own, in both kinds of trainable."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from perturbed import run
from torch import nn

from ablate.design.trial_spec import CheckpointPlan
from ablate.trial.draw import Draw
from ablate.trial.gradient_noise import STREAM, in_every_step, inject, noise, noisy

torch.set_num_threads(1)
DTYPES = [torch.float32, torch.float64, torch.bfloat16]
N = 20_000


def with_gradient(values: torch.Tensor) -> nn.Parameter:
    parameter = nn.Parameter(torch.zeros_like(values))
    parameter.grad = values.clone()
    return parameter


def moved(values: torch.Tensor, ulps: float, block: int = 0) -> torch.Tensor:
    parameter = with_gradient(values)
    inject({"p": parameter}, Draw("s", block)(STREAM), ulps)
    assert parameter.grad is not None
    return parameter.grad


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_noise_is_bounded_by_the_ulps_asked_for_and_reaches_them(dtype: torch.dtype) -> None:
    """Elements at 1, whose last place is eps: the largest of N even draws from [-1, 1] exceeds 0.999 but for 2e-9."""
    ulps, eps = 50.0, torch.finfo(dtype).eps
    change = (moved(torch.ones(N, dtype=dtype), ulps).double() - 1) / eps
    # below 1 the last place is half as large, so rounding there adds a quarter of an eps, above it half
    assert change.abs().max() <= ulps + 0.5
    assert change.abs().max() >= 0.999 * ulps - 0.5  # (1 - 0.001)^N = 2e-9


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_noise_is_even_and_without_bias(dtype: torch.dtype) -> None:
    """Statistical: N draws; a bias of a tenth of the size would be 24 standard errors."""
    ulps, eps = 1000.0, torch.finfo(dtype).eps
    share = (moved(torch.full((N,), 1.5, dtype=dtype), ulps).double() - 1.5) / (eps * ulps)
    error = 1 / math.sqrt(3 * N)  # standard error of the mean of N even draws from [-1, 1]
    assert abs(share.mean()) < 4 * error
    # the variance is 1/3; its standard error sqrt((1/5 - 1/9) / N)
    assert abs(share.square().mean() - 1 / 3) < 4 * math.sqrt((1 / 5 - 1 / 9) / N)


def test_the_unit_is_the_last_place_of_each_element() -> None:
    values = torch.tensor([2.0**k * m for k in (-140, -126, -3, 0, 60) for m in (1.0, 1.25, -1.9)])
    size = values.abs()
    last_place = torch.nextafter(size, torch.full_like(size, torch.inf)) - size
    share = torch.linspace(-1, 1, len(values)).double()
    found = noisy(values, share, 8.0).double()
    expected = values.double() + 8 * share * last_place.double()
    # exact but for one rounding to float32: half a last place, next to a power of two that of the element above it
    assert ((found - expected).abs() <= last_place.double()).all()
    assert (found != values.double()).sum() >= len(values) - 1


def test_65536_ulps_of_float32_are_one_of_bfloat16() -> None:
    assert torch.finfo(torch.bfloat16).eps / torch.finfo(torch.float32).eps == 65536
    shared = torch.tensor([1.0, 1.5, -3.0, 0.0078125])  # bfloat16 numbers
    full = torch.ones(4).double()
    in_float32 = noisy(shared, full, 65536.0)
    assert torch.equal(in_float32, noisy(shared.bfloat16(), full, 1.0).float())


@pytest.mark.parametrize("dtype", DTYPES)
def test_no_noise_is_no_change_and_what_rounding_keeps_stays(dtype: torch.dtype) -> None:
    values = torch.randn(500, dtype=torch.float64).to(dtype)
    assert torch.equal(moved(values, 0.0), values)
    special = torch.tensor([0.0, -0.0, torch.inf, -torch.inf, torch.nan], dtype=dtype)
    found = moved(special, 100.0)
    assert torch.equal(found.isnan(), special.isnan())
    assert torch.equal(found[:4], special[:4])
    assert torch.signbit(found[1])
    assert noise(Draw("s", 0), 0.0) is None


def test_the_same_block_gets_the_same_noise_and_another_block_another() -> None:
    values = torch.ones(100)
    assert torch.equal(moved(values, 5.0), moved(values, 5.0))
    assert not torch.equal(moved(values, 5.0), moved(values, 5.0, block=1))


def test_parameters_without_a_gradient_are_passed_over_and_sparse_gradients_are_moved() -> None:
    embedding = nn.Embedding(5, 2, sparse=True)
    embedding(torch.tensor([1, 1, 3])).sum().backward()
    inject({"none": nn.Parameter(torch.ones(2)), "e": embedding.weight}, Draw("s", 0)(STREAM), 1000.0)
    assert embedding.weight.grad is not None
    dense = embedding.weight.grad.to_dense()
    assert (dense[[0, 2, 4]] == 0).all()
    assert (dense[[1, 3]] != torch.tensor([[2.0], [1.0]])).any()


@pytest.mark.parametrize("trainable", ["small_trainables:Line", "small_trainables:function_line"])
def test_a_trial_with_noise_differs_but_draws_what_the_others_draw(tmp_path: Path, trainable: str) -> None:
    _, plain, before = run(tmp_path / "a", trainable)
    end, rows, columns = run(tmp_path / "b", trainable, gradient_noise=65536.0)
    _, again, repeated = run(tmp_path / "c", trainable, gradient_noise=65536.0)
    assert end.status == "done"
    assert rows["loss"][0] == plain["loss"][0]  # it comes after the first loss
    assert (rows["loss"][1:] != plain["loss"][1:]).all()
    assert again["loss"].tobytes() == rows["loss"].tobytes()
    for column in ("initial_hash", "order_hash", "draw_hash"):
        assert columns[column] == before[column], column
    assert before["perturbation_hash"] is None
    assert columns["perturbation_hash"] == repeated["perturbation_hash"] is not None


def test_both_kinds_of_trainable_get_the_same_noise(tmp_path: Path) -> None:
    _, structured, one = run(tmp_path / "a", "small_trainables:Line", gradient_noise=65536.0)
    _, function, two = run(tmp_path / "b", "small_trainables:function_line", gradient_noise=65536.0)
    assert structured["loss"].tobytes() == function["loss"].tobytes()
    assert one["perturbation_hash"] == two["perturbation_hash"]


def test_the_noise_comes_after_the_users_hook(tmp_path: Path) -> None:
    """``Fixed.after_backward`` writes ones over every gradient: noise that came before it would leave no trace."""
    _, plain, _ = run(tmp_path / "a", "perturbed_trainables:Fixed")
    _, rows, _ = run(tmp_path / "b", "perturbed_trainables:Fixed", gradient_noise=65536.0)
    assert (rows["loss"][1:] != plain["loss"][1:]).all()


def test_a_step_with_a_closure_gets_its_noise(tmp_path: Path) -> None:
    _, plain, _ = run(tmp_path / "a", "perturbed_trainables:with_closure")
    end, rows, _ = run(tmp_path / "b", "perturbed_trainables:with_closure", gradient_noise=65536.0)
    assert end.status == "done"
    assert (rows["loss"][1:] != plain["loss"][1:]).all()


def test_a_loop_that_steps_by_hand_is_no_silent_no_op(tmp_path: Path) -> None:
    end, _, _ = run(tmp_path, "perturbed_trainables:by_hand", gradient_noise=1.0)
    assert end.status == "failed"
    assert "gradient_noise: asked for 1 ulps, but no optimiser of torch.optim made a step" in end.error
    assert "a loop that steps by hand gets none" in end.error


def test_the_watch_on_optimisers_ends_with_the_block() -> None:
    parameter = with_gradient(torch.ones(3))
    optimiser = torch.optim.SGD([parameter], lr=1.0)
    with in_every_step(Draw("s", 0), 1000.0):
        optimiser.step()
    assert not torch.equal(parameter.grad, torch.ones(3))
    parameter.grad = torch.ones(3)
    optimiser.step()
    assert torch.equal(parameter.grad, torch.ones(3))
    with in_every_step(Draw("s", 0), 0.0):
        optimiser.step()
    assert torch.equal(parameter.grad, torch.ones(3))


@pytest.mark.parametrize("trainable", ["Careful", "function_careful"])
def test_a_resumed_trial_goes_on_with_the_noise_it_would_have_had(
    tmp_path: Path, trainable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, arm = f"small_trainables:{trainable}", {"gradient_noise": 1e5, "settings": {"die_at": 7}}
    spec = {"batches": 10, "checkpoint": CheckpointPlan(batches=3)}
    end, _, _ = run(tmp_path / "a", name, spec=spec, **arm)
    assert "broken off" in end.error
    for file in (tmp_path / "a" / "journal").iterdir():
        file.unlink()  # as the store does once it has set the attempt aside
    monkeypatch.setenv("alive", "1")
    _, resumed, one = run(tmp_path / "a", name, 2, spec=spec, **arm)
    _, whole, two = run(tmp_path / "b", name, spec=spec, **arm)
    assert one["resumed_at"] == 6
    assert np.array_equal(resumed["loss"], whole["loss"])
    assert one["perturbation_hash"] == two["perturbation_hash"]
