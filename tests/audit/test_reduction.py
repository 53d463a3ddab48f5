"""The longest sum of a step, against lengths counted by hand."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from ablate.audit.reduction import ReductionLength


def length(step):
    look = ReductionLength()
    with look:
        step()
    return look.longest


def t(*shape):
    return torch.ones(shape, dtype=torch.float64)


CASES = {
    "mm": (lambda: t(2, 70) @ t(70, 3), 70),
    "matrix times vector": (lambda: t(2, 70) @ t(70), 70),
    "bmm": (lambda: torch.bmm(t(4, 2, 70), t(4, 70, 3)), 70),
    "baddbmm": (lambda: torch.baddbmm(t(4, 2, 3), t(4, 2, 70), t(4, 70, 3)), 70),
    "addbmm": (lambda: torch.addbmm(t(2, 3), t(4, 2, 70), t(4, 70, 3)), 280),
    "addmm": (lambda: torch.addmm(t(3), t(2, 70), t(70, 3)), 70),
    "einsum": (lambda: torch.einsum("abi,aci->abc", t(4, 2, 70), t(4, 3, 70)), 70),
    "conv2d": (lambda: functional.conv2d(t(2, 6, 8, 8), t(4, 6, 3, 3)), 54),
    "grouped conv2d": (lambda: functional.conv2d(t(2, 6, 8, 8), t(6, 2, 3, 3), groups=3), 18),
    "conv_transpose2d": (lambda: functional.conv_transpose2d(t(2, 6, 8, 8), t(6, 4, 3, 3)), 54),
    "sum": (lambda: t(5, 7, 3).sum(), 105),
    "sum over a dim": (lambda: t(5, 7, 3).sum(1), 7),
    "mean": (lambda: t(5, 7, 3).mean((0, 1)), 35),
    "var": (lambda: t(5, 7).var(), 35),
    "norm": (lambda: t(5, 7).norm(), 35),
    "softmax": (lambda: t(5, 7).softmax(1), 7),
    "log_softmax": (lambda: t(5, 7).log_softmax(0), 5),
    "logsumexp": (lambda: t(5, 7).logsumexp(1), 7),
    "layer_norm": (lambda: functional.layer_norm(t(5, 7, 3), (7, 3)), 21),
    "batch_norm": (lambda: functional.batch_norm(t(5, 7, 3), None, None, training=True), 15),
    "cumsum": (lambda: t(5, 7).cumsum(1), 7),
    "index_add": (lambda: t(5).index_add(0, torch.tensor([1, 2, 1, 1]), t(4)), 4),
    "scatter_add": (lambda: t(5).scatter_add(0, torch.tensor([1, 2, 1, 1]), t(4)), 5),
    "index_put": (lambda: t(5).index_put((torch.tensor([1, 2, 1, 1]),), t(4), accumulate=True), 5),
    "foreach norm": (lambda: torch._foreach_norm([t(5, 7), t(3)]), 35),
    "element-wise": (lambda: (t(5, 7) * 3).sqrt().view(35)[3:].clone().fill_(2), 1),
    "copies": (lambda: torch.cat([t(5, 7)[:2], t(9, 7)])[torch.tensor([0, 1])], 1),
    "attention": (lambda: functional.scaled_dot_product_attention(t(1, 2, 90, 8), t(1, 2, 90, 8), t(1, 2, 90, 8)), 90),
    "added results": (lambda: t(2, 70) @ t(70, 3) + t(2, 50) @ t(50, 3) + t(2, 50) @ t(50, 3), 72),
}


@pytest.mark.parametrize("case", CASES)
def test_length(case):
    step, expected = CASES[case]
    assert length(step) == expected


def test_weight_gradient_of_a_convolution_sums_over_samples_and_positions():
    x, conv = t(4, 3, 12, 12), nn.Conv2d(3, 5, 3).double()
    assert length(lambda: conv(x).backward(t(4, 5, 10, 10))) == 400
    up = nn.ConvTranspose2d(3, 5, 3).double()
    assert length(lambda: up(x).backward(t(4, 5, 14, 14))) == 4 * 14 * 14  # its bias


def test_embedding_gradient_sums_as_often_as_a_word_occurs():
    table = nn.Embedding(10, 2).double()
    words = torch.tensor([3] * 20 + [4] * 5)
    assert length(lambda: table(words).backward(t(25, 2))) == 21


def test_gradients_accumulated_over_time_count_one_more_for_each_step():
    w, x = t(3, 3).requires_grad_(), t(50, 3)

    def step():
        outputs = [x @ w for _ in range(8)]
        torch.autograd.backward(outputs, [t(50, 3)] * 8)

    assert length(step) == 50 + 7


def test_values_and_generator_are_untouched():
    x, conv = torch.randn(2, 3, 6, 6, dtype=torch.float64), nn.Conv2d(3, 4, 3).double()
    state = torch.get_rng_state()
    plain = conv(x)
    with ReductionLength():
        assert torch.equal(conv(x), plain)
    assert torch.equal(torch.get_rng_state(), state)


def test_nothing_summed():
    assert length(lambda: t(3)) == 1


def test_what_runs_while_the_mode_is_left_does_not_count():
    look = ReductionLength()
    with look:
        t(5, 3).sum()
        with look.left():
            t(5, 70).sum()
        t(4, 4).sum()
    assert look.longest == 16


def test_memory_that_is_used_again_is_no_sum_of_what_was_there_before():
    """``torch.tensor`` and ``from_numpy`` make a tensor by no operation that is seen, as Adam its count of steps."""

    def step():
        for n in range(100):
            gone = t(50).sum()
            del gone
            made = torch.tensor(1.0, dtype=torch.float64) if n % 2 else torch.from_numpy(np.ones(1))
            made.add_(1)

    assert length(step) == 50
