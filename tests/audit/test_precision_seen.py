"""The coarsest precision of a step, seen in what it computes; data never counts."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from ablate.audit.precision_seen import PrecisionSeen, shortened


def cut(t, bits):
    """Truncate float32 mantissas to so many significant bits."""
    return (t.view(torch.int32) & -(1 << (24 - bits))).view(torch.float32)


class Cut(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, bits):
        return cut(x, bits)

    @staticmethod
    def backward(ctx, g):
        return g, None


def seen(forward, dtype=torch.float32):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 5)).to(dtype)
    look = PrecisionSeen()
    with look:
        forward(model).backward()
    return look


def pictures(dtype=torch.float32):
    return (torch.randint(0, 256, (2, 3, 8, 8), generator=torch.Generator().manual_seed(1)) / 256).to(dtype)


def test_plain_float32_and_float64():
    assert seen(lambda m: m(pictures()).square().mean()).roundoff == 2.0**-24
    look = seen(lambda m: m(pictures(torch.float64)).square().mean(), torch.float64)
    assert (look.roundoff, look.name) == (2.0**-53, "float64")


def test_autocast_inside_a_float32_model():
    def forward(model):
        with torch.autocast("cpu", torch.bfloat16):
            out = model(pictures())
        return out.float().square().mean()

    look = seen(forward)
    assert (look.roundoff, look.name) == (2.0**-8, "bfloat16")
    assert "test_precision_seen.py" in look.where


@pytest.mark.parametrize("bits", [8, 11, 13])
def test_truncated_mantissas(bits):
    def forward(model):
        return model[3](Cut.apply(model[2](model[1](model[0](pictures()))), bits)).square().mean()

    look = seen(forward)
    assert (look.roundoff, look.name) == (2.0**-bits, f"tf32-like ({bits} bits)")


def test_one_bit_more_than_short_is_not_reduced():
    x = torch.randn(1000, generator=torch.Generator().manual_seed(0))
    assert shortened(cut(x, 14)) == 2.0**-14
    assert shortened(cut(x, 15)) == 0


@pytest.mark.parametrize(
    "forward",
    {
        "data of few bits": lambda m: (m(pictures()) - pictures().mean()).square().mean(),
        "computed zeros and a mask": lambda m: (m(pictures()).relu() * torch.eye(5)[:2]).sum(),
        "cross entropy": lambda m: functional.cross_entropy(m(pictures()), torch.tensor([1, 2])),
        "few different values": lambda m: (m(pictures()).sum() * 0 + torch.arange(30.0).repeat(10)).mean(),
    }.values(),
)
def test_data_integers_masks_and_zeros_do_not_count(forward):
    assert seen(forward).roundoff == 2.0**-24


def test_nothing_computed():
    look = PrecisionSeen()
    with look:
        torch.ones(3) + 1
    assert (look.roundoff, look.name, look.where) == (0.0, "none", "")


def test_a_weight_seen_from_the_side_was_not_computed():
    def forward(model):
        weight = model[3].weight
        with torch.no_grad():
            weight.copy_(cut(weight, 8))
        return model(pictures()).square().mean() + (weight.t()[:3] * 1.1).sum()

    assert seen(forward).roundoff == 2.0**-24


def test_a_narrow_range_beside_coarser_numbers():
    look = seen(lambda m: m(pictures()).to(torch.bfloat16).mul(3).half().mul(3).float().mean())
    assert (look.roundoff, look.name, look.dtype) == (2.0**-8, "bfloat16", torch.float16)
    assert "test_precision_seen.py" in look.narrow
    assert seen(lambda m: m(pictures()).to(torch.bfloat16).mul(3).float().mean()).narrow is None
