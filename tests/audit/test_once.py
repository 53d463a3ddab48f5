"""Expanded tensors are kept once, and look as before."""

import torch

from ablate.audit.once import copied, once


def test_what_repeats_is_there_once():
    x = torch.arange(3.0).reshape(3, 1).expand(3, 1000)
    assert once(x).shape == (3, 1)
    made = copied(x)
    assert torch.equal(made, x)
    assert made.untyped_storage().nbytes() == 3 * 4
    assert made.data_ptr() != x.data_ptr()


def test_a_copy_has_no_gradient_and_keeps_its_layout():
    x = torch.ones(2, 3, requires_grad=True).t()
    made = copied(x)
    assert not made.requires_grad
    assert made.stride() == x.stride()
    assert copied(torch.eye(2).to_sparse()).layout is torch.sparse_coo
