"""Copies made when autograd saves: no later write reaches the backward pass."""

import gc
import weakref

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from ablate.audit.fresh import fresh_copies


def test_a_target_buffer_that_numpy_reuses_does_no_harm():
    def gradient(make_target):
        w = torch.arange(1.0, 5.0).requires_grad_()
        buffer = np.zeros(4, dtype=np.float32)
        loss = torch.zeros(())
        for step in range(3):
            buffer[:] = step
            loss = loss + functional.mse_loss(w, make_target(buffer))
        loss.backward()
        return w.grad

    right = gradient(lambda buffer: torch.from_numpy(buffer.copy()))
    with fresh_copies():
        assert torch.equal(gradient(torch.from_numpy), right)
    assert not torch.equal(gradient(torch.from_numpy), right)


@pytest.mark.parametrize("write", [lambda p: p.data.mul_(3), lambda p: p.detach().numpy().__imul__(3)])
def test_a_parameter_written_between_two_uses_counts_as_it_was_at_each(write):
    x, w = torch.tensor([2.0], requires_grad=True), nn.Parameter(torch.tensor([5.0]))
    with fresh_copies():
        first = x * w
        write(w)
        second = x * w
        write(w)
    (first + second).backward()  # after the context has ended
    assert float(x.grad) == 5 + 15


def test_a_computed_tensor_written_through_data_keeps_its_value():
    x = torch.tensor([2.0], requires_grad=True)
    with fresh_copies():
        h = x * 3
        y = h * h
        h.data.zero_()
        y.backward()
    assert float(x.grad) == 2 * 6 * 3


def test_what_torch_would_refuse_goes_through():
    x = torch.tensor([2.0], requires_grad=True)
    with fresh_copies():
        h = x * 3
        y = h * h
        h += 1
        y.backward()
    assert float(x.grad) == 36


@pytest.mark.parametrize(
    "model",
    [
        nn.Sequential(nn.Linear(6, 6), nn.RReLU(), nn.Linear(6, 2)),
        nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.ReLU(inplace=True), nn.Dropout(), nn.Linear(6, 2)),
    ],
)
def test_gradients_are_those_without_it_bit_for_bit(model):
    x = torch.randn(8, 6, generator=torch.Generator().manual_seed(0))
    found = []
    for inside in (False, True):
        model.zero_grad()
        torch.manual_seed(3)
        if inside:
            with fresh_copies():
                model(x).square().mean().backward()
        else:
            model(x).square().mean().backward()
        found.append([p.grad.clone() for p in model.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


def test_double_backward():
    x = torch.tensor([2.0], requires_grad=True)
    with fresh_copies():
        (first,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x)
    assert (first.item(), second.item()) == (12, 12)


def test_expanded_tensors_are_copied_once_per_element():
    row = torch.ones(1, 3)
    x = torch.ones(4, 3, requires_grad=True)
    with fresh_copies():
        y = x * row.expand(4, 3)
        row.zero_()
    assert y.grad_fn._saved_other.stride() == (0, 1)
    y.sum().backward()
    assert torch.equal(x.grad, torch.ones(4, 3))


def test_nothing_is_kept_alive_after_the_graph():
    x = torch.ones(3, requires_grad=True)
    with fresh_copies():
        h = x * 2
        kept = weakref.ref(h)
        loss = (h * h).sum()
        loss.backward()
    del h, loss
    gc.collect()
    assert kept() is None


@pytest.mark.parametrize("write", [False, True])
def test_what_was_written_before_backward_is_noticed_if_that_is_asked_for(write):
    x = torch.tensor([2.0, 0.0, torch.nan], requires_grad=True)
    buffer = np.ones(3, dtype=np.float32)
    norm = nn.BatchNorm1d(3)  # writes its running statistics after it has saved them
    with fresh_copies(compare=True) as copies:
        loss = (x * torch.from_numpy(buffer)).tanh().sum() + norm(torch.ones(4, 3) * x).sum()
        if write:
            buffer[1] = -0.0
        loss.backward()
    assert copies.overwritten is write


def test_a_zero_that_changes_its_sign_is_another_value():
    x = torch.ones(1, requires_grad=True)
    zero = torch.zeros(1)
    with fresh_copies(compare=True) as copies:
        y = x * zero
        zero.data.neg_()
        y.backward()
    assert copies.overwritten
    assert not torch.signbit(x.grad)
