"""float16's range in a simulation of rounding: what underflows there underflows here, and is told from a fault."""

from __future__ import annotations

import pytest
import torch

from ablate.audit.distance import Distance, judge
from ablate.audit.measured import measure
from ablate.audit.narrow_noise import NarrowNoise, rounding_noise, smallest_step
from ablate.audit.precision_seen import PrecisionSeen
from ablate.audit.rounding_noise import RoundingNoise
from ablate.audit.roundoff import FLOAT32, name_of

HALF = 2.0**-11


def spread(seed: int = 0) -> torch.Tensor:
    """Numbers of all sizes around float16's smallest ones."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(4000, generator=generator, dtype=torch.float64) * 2.0 ** torch.arange(-40, 0, 0.01)


def test_the_smallest_steps_are_the_types_own() -> None:
    assert smallest_step(torch.float16) == 2.0**-24
    assert float(torch.tensor(2.0**-24, dtype=torch.float64).half()) == 2.0**-24
    assert float(torch.tensor(0.49 * 2.0**-24, dtype=torch.float64).half()) == 0


@pytest.mark.parametrize("seed", [0, 1])
def test_a_small_result_is_what_float16_makes_of_it(seed: int) -> None:
    x = spread()
    with NarrowNoise(HALF, seed, torch.float16):
        found = x * 1.0
    right = x.half().double()
    small = x.abs() < 2.0**-14
    # the noise that comes first moves a number by u of itself, so that a few are rounded to the next step
    assert bool(((found - right).abs() <= 2.0**-24)[small].all())
    assert float((found == right)[small].double().mean()) > 0.95
    assert bool((found == 0)[x.abs() < 0.49 * 2.0**-24].all())
    assert bool(((found - x).abs() <= HALF * x.abs())[~small].all())


def test_the_errors_of_what_underflows_add_up_in_a_sum() -> None:
    x = torch.full((10_000,), 2.0**-26, dtype=torch.float64)
    with NarrowNoise(HALF, 0, torch.float16):
        lost = float((x * 1.0).sum())
    with RoundingNoise(HALF, 0):
        kept = float((x * 1.0).sum())
    assert lost == 0
    assert kept == pytest.approx(10_000 * 2.0**-26, rel=0.01)


def test_other_types_have_the_usual_simulation() -> None:
    assert type(rounding_noise(HALF, 0, torch.float16)) is NarrowNoise
    for dtype in (torch.float32, torch.bfloat16, torch.float64):
        assert type(rounding_noise(HALF, 0, dtype)) is RoundingNoise


def judged(factor: float, held_in: torch.dtype) -> Distance:
    """A gradient that went through float16, times a factor."""
    exact = spread()

    def simulate(roundoff: float) -> list[torch.Tensor]:
        found = []
        for seed in range(3):
            with rounding_noise(roundoff, seed, held_in):
                found.append(exact * 1.0)
        return found

    exact = exact * 2.0**-20
    measured = measure("gradient", "w", (exact.half() * factor).float(), exact)
    return judge(measured, roundoff=HALF, reduction=10, simulate=simulate, held_in=held_in)


def test_underflow_is_reduced_precision_and_says_what_helps() -> None:
    found = judged(1.0, torch.float16)
    assert found.verdict == "reduced"
    lost = found.detail.partition("%")[0]
    assert found.detail == f"{lost}% of its elements underflow to zero in float16: scale the loss"
    assert 50 < int(lost) < 100
    assert judged(1.0, torch.float32).verdict == "bug"  # tf32 has float32's range


def test_a_fault_beside_underflow_is_a_bug() -> None:
    assert judged(30.0, torch.float16).verdict == "bug"


def test_what_is_not_finite_because_of_a_narrow_range_is_reduced() -> None:
    exact = torch.tensor([1e6], dtype=torch.float64)
    measured = measure("gradient", "w", exact.half().float(), exact)
    given = {"roundoff": HALF, "reduction": 1, "beyond_range": lambda: "aten.mul gives 1e+06"}
    found = judge(measured, held_in=torch.float16, **given)
    assert found.verdict == "reduced"
    assert found.detail == "not finite: float16 cannot hold what the reference holds (aten.mul gives 1e+06)"
    assert judge(measured, held_in=torch.float32, **given).verdict == "unjudged"
    none = judge(measured, roundoff=HALF, reduction=1, beyond_range=lambda: "", held_in=torch.float16)
    assert none.verdict == "bug"


def test_a_simulation_that_fails_keeps_the_distance_and_says_so() -> None:
    def simulate(roundoff: float) -> list[torch.Tensor]:
        raise NotImplementedError("no\nkernel")

    exact = torch.ones(3, dtype=torch.float64)
    found = judge(
        measure("gradient", "w", exact.float() * 1.5, exact), roundoff=FLOAT32, reduction=3, simulate=simulate
    )
    assert (found.verdict, found.error > 0.8) == ("unjudged", True)
    assert found.detail == (
        "farther than a well-conditioned sum explains; simulating rounding failed: NotImplementedError: no kernel"
    )
    measured = measure("gradient", "w", exact.float(), exact, own=exact * 1.5)
    found = judge(measured, roundoff=FLOAT32, reduction=3, simulate=simulate)
    assert found.verdict == "unjudged"
    assert found.detail.startswith("its own code in float64 is not judged; simulating rounding failed")


def test_float16_and_tf32_are_told_apart_by_what_holds_the_numbers() -> None:
    assert name_of(HALF) == "tf32"
    assert name_of(HALF, torch.float32) == "tf32"
    assert name_of(HALF, torch.float16) == "float16"
    x = torch.randn(40, requires_grad=True)
    seen = PrecisionSeen()
    with seen:
        (x.half() * 1.1).sum()
    assert (seen.name, seen.dtype) == ("float16", torch.float16)
