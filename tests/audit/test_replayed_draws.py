"""A float64 run under DrawnIn draws what the float32 run drew, and leaves the generator where that left it."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from ablate.audit.replayed_draws import DrawLog, DrawnIn


def lstm(x):
    model = nn.LSTM(6, 6, num_layers=3, dropout=0.5).to(x.dtype)
    for p in model.parameters():
        nn.init.constant_(p, 0.25)
    return model(x)[0]


DRAWS = {
    "dropout": lambda x: functional.dropout(x, 0.3),
    "dropout2d": lambda x: functional.dropout2d(x[None], 0.5),
    "alpha_dropout": lambda x: functional.alpha_dropout(x, 0.5),
    "dropout of a transpose": lambda x: functional.dropout(x.transpose(0, 2), 0.5),
    "rrelu": lambda x: functional.rrelu(x, training=True),
    "rrelu in place": lambda x: functional.rrelu(x.clone(), training=True, inplace=True),
    "lstm": lstm,
    "randn": lambda x: x + torch.randn(x.shape, dtype=x.dtype),
    "few randn": lambda x: x[0, 0] + torch.randn(x.shape[-1], dtype=x.dtype),
    "randn of the default type": lambda x: x + torch.randn(x.shape),
    "randn_like": lambda x: torch.randn_like(x),
    "rand_like": lambda x: torch.rand_like(x),
    "rand_like of a type of its own": lambda x: torch.rand_like(x, dtype=torch.float32),
    "bernoulli": lambda x: torch.bernoulli(torch.sigmoid(x)),
    "bernoulli_ of a tensor": lambda x: torch.empty_like(x).bernoulli_(torch.sigmoid(x)),
    "normal_": lambda x: x.clone().normal_(1.0, 2.0),
    "normal": lambda x: torch.normal(x, 2.0),
    "normal of two tensors": lambda x: torch.normal(x, x.abs()),
    "exponential_": lambda x: torch.empty_like(x).exponential_(2.0),
    "uniform_": lambda x: torch.empty_like(x).uniform_(-1, 1),
    "multinomial": lambda x: torch.multinomial(x.abs().reshape(-1), 20),
    "randperm": lambda x: torch.randperm(10),
    "randint": lambda x: torch.randint(0, 10, (8,)),
    "poisson": lambda x: torch.poisson(x.abs() * 4),
    "gumbel_softmax": lambda x: functional.gumbel_softmax(x),
    "fractional_max_pool2d": lambda x: functional.fractional_max_pool2d(x, 2, output_size=2),
    "a generator of its own": lambda x: torch.randn(5, dtype=x.dtype, generator=torch.Generator().manual_seed(1)),
}


def inputs():
    return torch.randn(5, 4, 6, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("case", DRAWS)
def test_float64_draws_what_float32_drew(case):
    x, draw = inputs(), DRAWS[case]
    torch.manual_seed(7)
    narrow = draw(x)
    after = torch.get_rng_state()
    torch.manual_seed(7)
    with DrawnIn(torch.float32):
        wide = draw(x.double())
    assert torch.equal(torch.get_rng_state(), after)
    # what follows the draw is computed in float32 there and in float64 here, by fewer than ten operations
    torch.testing.assert_close(wide.double(), narrow.double(), rtol=10 * 2.0**-23, atol=10 * 2.0**-23)
    assert torch.equal(wide == 0, narrow == 0)


def test_without_it_float64_draws_something_else():
    torch.manual_seed(7)
    narrow = torch.randn(20)
    torch.manual_seed(7)
    assert not torch.allclose(torch.randn(20, dtype=torch.float64), narrow.double(), atol=0.1)


def test_logged_draws_keep_their_type_and_layout():
    def draw(x):
        return torch.randn(3, 4, 5, 6, dtype=torch.float64) + functional.dropout(x, 0.5)

    narrow = torch.ones(3, 4, 5, 6).contiguous(memory_format=torch.channels_last)
    log = DrawLog()
    torch.manual_seed(7)
    with log:
        drawn = draw(narrow)
    after = torch.get_rng_state()
    torch.manual_seed(7)
    with DrawnIn(torch.float32, log):
        assert torch.equal(draw(torch.ones(3, 4, 5, 6, dtype=torch.float64)), drawn)
    assert torch.equal(torch.get_rng_state(), after)
    assert [one.dtype for one in log.draws] == [torch.float64, torch.float32]


def test_gradients_pass_through_replayed_noise():
    x = inputs()
    gradients = []
    for wide in (x.clone().requires_grad_(), x.double().requires_grad_()):
        torch.manual_seed(7)
        with DrawnIn(torch.float32):
            (functional.rrelu(wide, training=True) * functional.dropout(wide, 0.5)).sum().backward()
        gradients.append(wide.grad.double())
    torch.testing.assert_close(gradients[0], gradients[1], rtol=10 * 2.0**-23, atol=10 * 2.0**-23)
