"""The sketch: the same bits everywhere, an estimate that keeps its theory's promise, a floor that rounding keeps to."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest
import torch
from torch import nn

from ablate.record.sketch import RELATIVE_ERROR, RUN, WIDTH, decode, distance, encode, rounding_floor
from ablate.trial.sketch import _codes_of, sketch

SIZES = {"first.weight": (300, 40), "first.bias": (40,), "scale": (), "empty": (0,), "second.weight": (7, 5, 3, 3)}
NUMBERS = 300 * 40 + 40 + 1 + 7 * 5 * 9


def tensors(dtype: torch.dtype = torch.float32, seed: int = 0) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randn(shape, generator=generator).to(dtype) for name, shape in SIZES.items()}


def naively(parameters: dict[str, torch.Tensor]) -> np.ndarray:
    """One addition after the other, in Python: what the sketch is by definition."""
    numbers, codes = [], []
    for name in sorted(parameters):
        numbers += parameters[name].double().flatten().tolist()
        codes += _codes_of(name, parameters[name].numel()).tolist()
    total = [0.0] * (2 * WIDTH)
    for begin in range(0, len(numbers), RUN):
        here = [0.0] * (2 * WIDTH)
        for code, number in zip(codes[begin : begin + RUN], numbers[begin : begin + RUN], strict=True):
            here[code] += number
        total = [a + b for a, b in zip(total, here, strict=True)]
    return np.array([total[k] - total[WIDTH + k] for k in range(WIDTH)])


def exactly(parameters: dict[str, torch.Tensor]) -> np.ndarray:
    """Every bucket's sum, rounded once."""
    terms: list[list[float]] = [[] for _ in range(WIDTH)]
    for name, tensor in parameters.items():
        for code, number in zip(_codes_of(name, tensor.numel()), tensor.double().flatten().tolist(), strict=True):
            terms[code % WIDTH].append(number if code < WIDTH else -number)
    return np.array([math.fsum(bucket) for bucket in terms])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_bit_for_bit_the_plain_loop(dtype: torch.dtype) -> None:
    """The order of summation is the loop's, on whatever machine this test runs."""
    assert sketch(tensors(dtype)).tobytes() == naively(tensors(dtype)).tobytes()


def test_more_than_one_run_is_the_plain_loop_too() -> None:
    large = {"w": torch.randn(2 * RUN + 77, generator=torch.Generator().manual_seed(1))}
    assert sketch(large).tobytes() == naively(large).tobytes()


def test_the_same_bits_on_every_machine() -> None:
    """Fails if hash or order ever changes: sketches of stores written so far could no longer be compared."""
    whole = {name: torch.arange(math.prod(shape)).reshape(shape).double() for name, shape in SIZES.items()}
    parameters = {name: (tensor * 7919 % 1009 - 504) / 997 for name, tensor in whole.items()}  # all rounded correctly
    assert hashlib.sha256(sketch(parameters).tobytes()).hexdigest()[:16] == "48df8289f193c0f4"


def test_order_of_registration_and_layout_in_memory_do_not_matter() -> None:
    parameters = tensors()
    turned = dict(reversed(parameters.items()))
    turned["second.weight"] = parameters["second.weight"].to(memory_format=torch.channels_last)
    turned["first.weight"] = parameters["first.weight"].t().contiguous().t()
    assert sketch(turned).tobytes() == sketch(parameters).tobytes()


def test_names_and_places_matter() -> None:
    parameters = tensors()
    for other in (
        {**parameters, "first.weight": parameters["first.weight"].flip(0)},
        {("renamed" if name == "first.bias" else name): tensor for name, tensor in parameters.items()},
    ):
        assert distance(sketch(other), sketch(parameters)) > 1


def test_equal_parameters_are_0_apart_and_types_do_not_matter() -> None:
    parameters = tensors()
    assert distance(sketch(parameters), sketch({name: t.clone() for name, t in parameters.items()})) == 0.0
    assert distance(sketch(parameters), sketch({name: t.double() for name, t in parameters.items()})) == 0.0
    mixed = {**parameters, "first.bias": parameters["first.bias"].double()}
    assert distance(sketch(parameters), sketch(mixed)) == 0.0


def test_complex_parameters_count_twice() -> None:
    pair = torch.randn(50, 2, generator=torch.Generator().manual_seed(2))
    assert sketch({"w": torch.view_as_complex(pair)}).tobytes() == sketch({"w": pair}).tobytes()


def test_it_is_linear() -> None:
    """Small whole numbers have no rounding, so the sketch of a difference is the difference of the sketches."""
    generator = torch.Generator().manual_seed(6)
    a, b = ({"w": torch.randint(-99, 99, (5000,), generator=generator).float()} for _ in range(2))
    assert (sketch(a) - sketch(b) == sketch({"w": a["w"] - b["w"]})).all()


VECTORS = {
    "dense": np.random.default_rng(0).standard_normal(2000),
    "one sign": np.abs(np.random.default_rng(1).standard_normal(2000)),
    "heavy": np.r_[30.0, 20.0, 10.0, np.random.default_rng(2).standard_normal(2000)],
    "few": np.array([1.0, -2.0, 3.0]),
}
HASHES = 400


@pytest.mark.parametrize("kind", VECTORS)
def test_the_squared_norm_is_unbiased_with_the_variance_of_the_theory(kind: str) -> None:
    """Over 400 hashes (names), fixed beforehand: mean and variance within 4 standard errors of theirs.

    Var = 2/256 (||w||_2^4 - ||w||_4^4); a bias of 2 % of a dense vector's squared norm would be 4.5 standard errors.
    """
    vector = VECTORS[kind]
    found = np.array([squared(vector, f"{kind}{k}") for k in range(HASHES)])
    square, fourth = (vector**2).sum(), (vector**4).sum()
    variance = 2 / WIDTH * (square**2 - fourth)
    assert abs(found.mean() - square) < 4 * math.sqrt(variance / HASHES)
    spread = ((found - square) ** 2 - variance).std() / math.sqrt(HASHES)
    assert abs(((found - square) ** 2).mean() - variance) < 4 * spread
    assert variance <= 2 / WIDTH * square**2


def squared(vector: np.ndarray, name: str) -> float:
    return float((sketch({name: torch.from_numpy(vector)}) ** 2).sum())


def test_the_check_of_the_theory_finds_a_sketch_without_signs() -> None:
    vector = VECTORS["one sign"]
    buckets = [_codes_of(f"{k}", len(vector)) % WIDTH for k in range(HASHES)]
    found = np.array([(np.bincount(codes, vector, WIDTH) ** 2).sum() for codes in buckets])
    square = (vector**2).sum()
    assert abs(found.mean() - square) > 4 * math.sqrt(2 / WIDTH * square**2 / HASHES)


def test_a_distance_is_estimated_with_the_error_that_is_stated() -> None:
    """Of 300 planted distances over 12 decades: none beyond 5 standard errors, and the mean square near 1."""
    start = tensors()["first.weight"].double()
    errors = []
    for k in range(300):
        step = torch.randn(start.shape, generator=torch.Generator().manual_seed(k), dtype=torch.float64)
        step *= 10.0 ** (-k % 12) / step.norm()
        moved = start + step
        estimate = distance(sketch({"w": start}), sketch({"w": moved}))
        errors.append((estimate / float((moved - start).norm()) - 1) / RELATIVE_ERROR)
    assert max(map(abs, errors)) < 5
    assert 0.7 < float(np.mean(np.square(errors))) < 1.3  # 300 squares of a standard normal: 1 +- 4 * sqrt(2 / 300)


@pytest.mark.parametrize("size", [1, 10, 1000, 50_000])
@pytest.mark.parametrize("kind", ["normal", "one sign", "wide"])
def test_rounding_stays_below_the_floor(size: int, kind: str) -> None:
    numbers = np.random.default_rng(size).standard_normal(size)
    numbers = {"normal": numbers, "one sign": np.abs(numbers), "wide": numbers * 10.0 ** (8 * numbers)}[kind]
    parameters = {"w": torch.from_numpy(numbers)}
    rounded, exact = sketch(parameters), exactly(parameters)
    assert distance(rounded, exact) <= rounding_floor(rounded, exact, size)


def test_a_sum_in_float32_would_be_above_the_floor() -> None:
    numbers = np.random.default_rng(3).standard_normal(50_000).astype(np.float32)
    codes, single = _codes_of("w", len(numbers)), np.zeros(2 * WIDTH, np.float32)
    np.add.at(single, codes, numbers)
    rounded = (single[:WIDTH] - single[WIDTH:]).astype(np.float64)
    exact = exactly({"w": torch.from_numpy(numbers)})
    assert distance(rounded, exact) > 100 * rounding_floor(rounded, exact, len(numbers))


def test_one_ulp_in_one_weight_of_100_000_is_seen() -> None:
    model = nn.Linear(1000, 100)
    nn.init.normal_(model.weight, std=0.03, generator=torch.Generator().manual_seed(7))
    nn.init.zeros_(model.bias)
    before = sketch(dict(model.named_parameters()))
    size = sum(parameter.numel() for parameter in model.parameters())
    with torch.no_grad():
        one = model.weight[0, 0].clone()
        moved = torch.nextafter(one, torch.tensor(2.0))
        step = abs(float(moved.double() - one.double()))
        model.weight[0, 0] = moved
    after = sketch(dict(model.named_parameters()))
    found = distance(before, after)
    assert found > rounding_floor(before, after, size)
    assert found == pytest.approx(step, abs=rounding_floor(before, after, size))


def test_the_floor_is_as_small_as_it_says() -> None:
    rng = np.random.default_rng(4)
    for size, most in ((100_000, 8e-13), (1_000_000, 4e-12)):
        values = rng.standard_normal(WIDTH)
        assert rounding_floor(values, values, size) / float(np.linalg.norm(values)) < most


def test_every_bit_survives_the_text() -> None:
    values = np.r_[-0.0, 5e-324, 1.7976931348623157e308, np.random.default_rng(5).standard_normal(WIDTH - 3)]
    assert decode(encode(values)).tobytes() == values.tobytes()
    with pytest.raises(ValueError, match="non-hexadecimal"):
        decode("xy")


def test_no_generator_moves() -> None:
    before, numpys = torch.get_rng_state(), np.random.get_state()[1].tobytes()  # type: ignore[index, union-attr]
    sketch({"never seen before": torch.ones(10)})
    assert torch.equal(before, torch.get_rng_state())
    assert np.random.get_state()[1].tobytes() == numpys  # type: ignore[index, union-attr]
