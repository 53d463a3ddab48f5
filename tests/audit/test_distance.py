"""Judging a distance to float64: what the bound explains, what simulated rounding explains, and what is a bug."""

import math

import numpy as np
import pytest
import torch

from ablate.audit.anchor import anchor, signs
from ablate.audit.bounds import error_bound, update_bound
from ablate.audit.distance import FACTOR, FINE, judge
from ablate.audit.measured import measure
from ablate.audit.norms import distance, norm
from ablate.audit.range_seen import RangeSeen
from ablate.audit.roundoff import FLOAT32, FLOAT64, name_of, unit_roundoff


def verdict(arm, reference, roundoff=FLOAT32, reduction=100, own=None, weights=None, **given):
    measured = measure("gradient", "w", arm, reference, own, weights)
    return judge(measured, roundoff=roundoff, reduction=reduction, **given)


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_unit_roundoff_is_half_the_gap_above_one():
    expected = {torch.float32: 2.0**-24, torch.float64: 2.0**-53, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}
    for dtype, u in expected.items():
        assert unit_roundoff(dtype) == u
        assert float(torch.tensor(1 + 2 * u, dtype=torch.float64).to(dtype)) == 1 + 2 * u
        assert float(torch.tensor(1 + 0.99 * u, dtype=torch.float64).to(dtype)) == 1
        assert name_of(u, dtype) == str(dtype).removeprefix("torch.")
    assert name_of(2.0**-13) == "tf32-like (13 bits)"
    with pytest.raises(TypeError):
        unit_roundoff(torch.int64)


def test_the_bound_is_the_formula():
    assert error_bound(2.0, FLOAT32, 7200) == pytest.approx(2 * math.sqrt(2 * math.log(14400e9) * 7200) * 2.0**-24)
    assert error_bound(0.0, FLOAT32, 7200, 3.0) == 3.0
    coarse = error_bound(1.0, 2.0**-8, 7200)
    assert coarse == pytest.approx(math.sqrt(2 * math.log(14400e9)) * (2.0**-8 + math.sqrt(7200) * 2.0**-24))
    assert update_bound(1.0, FLOAT32, 1, 5.0, FLOAT32) == error_bound(1.0, FLOAT32, 32, 15 * FLOAT32)


def test_the_bound_holds_for_sums_in_the_worst_order_and_a_planted_tenth_of_it_would_not():
    # 400 sums of 2000 positive terms, added one after the other: of correct sums none may exceed the bound, which
    # fails once in 1e9; the largest error is above 1/60 of it, so that it isn't empty
    terms = np.random.default_rng(0).random((400, 2000), dtype=np.float32)
    narrow = np.add.accumulate(terms, axis=1, dtype=np.float32)[:, -1].astype(np.float64)
    exact = terms.astype(np.float64).sum(1)
    worst = float(np.max(np.abs(narrow - exact) / exact))
    assert error_bound(1.0, FLOAT32, 2000) / 60 < worst < error_bound(1.0, FLOAT32, 2000)


def test_equal():
    x = torch.ones(3)
    found = verdict(x, x.double())
    assert (found.verdict, found.error, found.detail) == ("equal", 0.0, "equal to the float64 reference")
    assert (found.shape, found.dtype, found.scale) == ((3,), "float32", math.sqrt(3))


@pytest.mark.parametrize(("dtype", "expected"), [(torch.float32, "rounding"), (torch.bfloat16, "reduced")])
def test_rounding_within_the_bound(dtype, expected):
    x = random(50)
    found = verdict(x.to(dtype), x, unit_roundoff(dtype))
    assert found.verdict == expected
    assert found.within_bound
    assert found.noise is None
    assert found.detail == f"within what rounding in {name_of(unit_roundoff(dtype))} explains"


def test_beyond_the_bound_simulated_rounding_decides():
    x = random(50)
    bound = error_bound(norm(x), FLOAT32, 100)
    arm = x * (1 + 10 * bound / norm(x))
    asked = []

    def simulate(size):
        def samples(roundoff):
            asked.append(roundoff)
            return [x + size / math.sqrt(50), x]

        return samples

    unjudged = verdict(arm, x)
    assert unjudged.verdict == "unjudged"
    assert unjudged.detail == "farther than a well-conditioned sum explains; rounding was not simulated"
    right = verdict(arm, x, simulate=simulate(10.01 * bound / FACTOR))
    assert right.verdict == "rounding"
    assert right.detail.startswith("ill-conditioned: simulated rounding in float32 moves it by up to ")
    bug = verdict(arm, x, simulate=simulate(9.99 * bound / FACTOR))
    assert bug.verdict == "bug"
    assert bug.noise == pytest.approx(9.99 * bound / FACTOR)
    assert ", 10 times what a sum in float32 explains; simulated rounding in float32 moves it by " in bug.detail
    assert asked == [FLOAT32, FLOAT32]
    broken = verdict(arm, x, simulate=lambda _: [x * math.nan])
    assert broken.verdict == "unjudged"
    assert broken.detail == "farther than a well-conditioned sum explains; simulated rounding is not finite"


def test_a_zero_gradient_is_judged_by_its_absolute_error():
    zero = torch.zeros(4, dtype=torch.float64)
    arm = torch.full((4,), 1e-7)
    assert verdict(arm, zero, simulate=lambda _: [zero + 5e-8]).verdict == "rounding"
    assert verdict(arm, zero, simulate=lambda _: [zero + 1e-9]).verdict == "bug"


def test_own_code_in_float64():
    x = random(50)
    wrong = x * 1.01
    noise = {"simulate": lambda u: [x * (1 + u)]}
    both = verdict(wrong.float(), x, own=wrong, **noise)
    assert both.own_error > both.own_bound
    assert both.detail.endswith("away, so precision does not explain it")
    alone = verdict(wrong.float(), x, own=x, **noise)
    assert alone.own_error == 0
    assert alone.detail.endswith("the same code in float64 is 0 away, so it shows in float32 only")


def test_bound_of_ones_own_code_is_simulated_where_a_sum_does_not_explain_it():
    x = random(50)
    own = x * (1 + 1e-12)
    found = verdict(x.float(), x, own=own, simulate=lambda u: [x * (1 + 1e4 * u)])
    assert found.own_bound == pytest.approx(FACTOR * 1e4 * FLOAT64 * norm(x))
    assert found.own_error < found.own_bound
    assert FINE > FLOAT64


def test_updates_are_allowed_the_rounding_of_the_weights():
    weights, change = random(100).float(), random(100, seed=1) * 1e-6
    arm = (weights + change.float()).double() - weights.double()
    assert verdict(arm.float(), change, reduction=1).verdict == "unjudged"
    assert verdict(arm.float(), change, reduction=1, weights=weights).verdict == "rounding"


def test_shapes_must_agree():
    with pytest.raises(ValueError, match=r"^gradient w: shape \(3,\), the reference's is \(4,\)$"):
        verdict(torch.ones(3), torch.ones(4))


def test_numbers_that_are_not_finite():
    x = torch.ones(3, dtype=torch.float64)
    nan = torch.tensor([1.0, 1.0, math.nan])
    assert verdict(nan, x).detail == "not finite, the reference is; float32 may have overflowed"
    assert verdict(x.float(), x * math.inf).detail == "the float64 reference is not finite"
    for one in (1e40, 1e-40):
        seen = out_of_range(one)
        found = verdict(nan, x, beyond_range=lambda seen=seen: seen.beyond)
        assert found.verdict == "unjudged"
        assert found.detail == (
            f"not finite: float32 cannot hold what the reference holds (aten.mul.Tensor gives {one:.3g})"
        )
    bug = verdict(nan, x, beyond_range=lambda: out_of_range(1.0).beyond)
    assert bug.verdict == "bug"
    assert bug.detail == "not finite, though nothing the reference computes is beyond the range of float32"
    assert verdict(torch.tensor(math.inf), torch.tensor(math.inf, dtype=torch.float64)).verdict == "equal"
    assert verdict(x, x * 1.7e308).verdict == "unjudged"


def out_of_range(size):
    look = RangeSeen(torch.float32)
    x = torch.ones(2, dtype=torch.float64)
    with look:
        x * size
    return look


def test_a_finite_value_is_forgiven_for_overflow_only():
    x = torch.ones(3, dtype=torch.float64)
    simulate = {"simulate": lambda _: [x]}
    found = verdict(x.float() * 2, x, overflowed=lambda: out_of_range(1e40).overflow, **simulate)
    assert found.verdict == "unjudged"
    assert found.detail == "float32 cannot hold what the reference holds (aten.mul.Tensor gives 1e+40)"
    assert verdict(x.float() * 2, x, overflowed=lambda: out_of_range(1e-40).overflow, **simulate).verdict == "bug"


def test_range_seen():
    x = torch.tensor([1.0, 100.0], dtype=torch.float64)
    for step, overflow, underflow in [
        (lambda: x.exp(), "aten.exp.default gives 2.69e+43", ""),
        (lambda: (-x).exp(), "", "aten.exp.default gives 3.72e-44"),
        (lambda: x * 2, "", ""),
    ]:
        look = RangeSeen(torch.float32)
        with look:
            step()
        assert (look.overflow, look.underflow) == (overflow, underflow)


def test_norms_neither_overflow_nor_underflow():
    assert norm(torch.full((4,), 1e200, dtype=torch.float64)) == pytest.approx(2e200)
    assert norm(torch.full((4,), 1e-200, dtype=torch.float64)) == pytest.approx(2e-200)
    assert norm(torch.tensor([3 + 4j])) == 5
    assert norm(torch.ones(0)) == 0
    assert norm(torch.eye(2).to_sparse()) == pytest.approx(math.sqrt(2))
    assert distance(torch.tensor([math.inf, 1.0]), torch.tensor([math.inf, 1.0])) == 0
    assert math.isnan(distance(torch.tensor([math.inf]), torch.tensor([1.0])))


def test_the_anchor_is_the_same_on_every_machine():
    assert signs("conv.weight", 12).tolist() == ANCHOR_SIGNS
    x = torch.arange(12.0).reshape(3, 4)
    assert anchor(x, "conv.weight") == float(np.dot(ANCHOR_SIGNS, np.arange(12.0)))
    assert anchor(x.t(), "conv.weight") == float(np.dot(ANCHOR_SIGNS, x.t().reshape(-1).numpy()))
    assert anchor(torch.tensor(2.0), "a") in (2.0, -2.0)
    assert anchor(torch.ones(0), "a") == 0.0
    assert anchor(x, "conv.bias") != anchor(x, "conv.weight")
    long = signs("w", 100_000)
    assert signs("w", 99).tolist() == long[:99].tolist()
    # the sum of n signs has standard deviation sqrt(n): 5 of them
    assert abs(long.sum()) < 5 * math.sqrt(100_000)


def test_the_anchor_tells_moved_elements_apart():
    x = random(1000)
    assert anchor(x.flip(0), "w") != anchor(x, "w")


ANCHOR_SIGNS = [-1.0, -1.0, -1.0, -1.0, -1.0, 1.0, -1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
