"""Draws depend on study, block and stream alone: never on the arm, the instruction set or the thread count."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import numpy as np
import pytest
import torch

from ablate.trial.draw import Draw

SAME_EVERYWHERE = """
import torch
from ablate.trial.draw import Draw
draw = Draw("study", 3)
for shape in ((1000,), (17, 3)):
    draw("a").normal(shape), draw("b").uniform(shape), draw("c").mask(0.3, shape), draw("d").integers(0, 9, shape)
draw("e").permutation(1000)
values = [draw("f").normal((4096,)), draw("g").uniform((4096,))]
import hashlib
print(sorted((name, stream.digest) for name, stream in draw.streams.items()))
print([hashlib.sha256(v.numpy().tobytes()).hexdigest() for v in values])
"""


def test_the_same_stream_gives_the_same_values() -> None:
    first, second = Draw("s", 1)("x"), Draw("s", 1)("x")
    assert torch.equal(first.normal((50,)), second.normal((50,)))
    assert first.permutation(50).tolist() == second.permutation(50).tolist()
    assert first.digest == second.digest


def test_a_single_number_is_drawn_as_a_tensor_without_dimensions() -> None:
    """The shape of a learned scalar, whose one-ulp control draws with it."""
    one, many = Draw("s", 0)("x"), Draw("s", 0)("x")
    for name, more in (("normal", ()), ("uniform", ()), ("mask", (0.5,))):
        assert getattr(one, name)(*more, ()).tolist() == getattr(many, name)(*more, (1,)).item(), name
    assert (one.digest, one.count) == (many.digest, 3)


@pytest.mark.parametrize("other", [Draw("s", 2)("x"), Draw("t", 1)("x"), Draw("s", 1)("y")])
def test_another_study_block_or_stream_gives_other_values(other: object) -> None:
    assert not torch.equal(Draw("s", 1)("x").normal((50,)), other.normal((50,)))


def test_the_digest_sees_every_value() -> None:
    one, two = Draw("s", 1)("x"), Draw("s", 1)("x")
    one.normal((10,))
    two.normal((9,))
    assert one.digest != two.digest
    assert (one.count, two.count) == (10, 9)


def test_global_generators_are_left_alone() -> None:
    before = (torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate())
    Draw("s", 1)("x").normal((10,))
    assert torch.equal(before[0], torch.get_rng_state())
    assert (before[1] == np.random.get_state()[1]).all()
    assert before[2] == random.getstate()


def test_normals_are_standard() -> None:
    # statistical: n = 200,000 fixed; standard error of the mean 1/sqrt(n) = .0022, of the variance sqrt(2/n) = .0032
    values = Draw("s", 1)("x").normal((200_000,)).double()
    assert abs(values.mean()) < 4 * 0.0022
    assert abs(values.var() - 1) < 4 * 0.0032
    biased = values + 0.02  # a planted bias of 9 standard errors is rejected
    assert abs(biased.mean()) > 4 * 0.0022


def test_draws_are_equal_under_other_instruction_sets_and_thread_counts() -> None:
    outputs = set()
    for capability, threads in (("default", "1"), ("avx2", "1"), ("default", "2"), ("avx2", "2")):
        environment = {**os.environ, "ATEN_CPU_CAPABILITY": capability, "OMP_NUM_THREADS": threads}
        done = subprocess.run(
            [sys.executable, "-c", SAME_EVERYWHERE], env=environment, capture_output=True, text=True, check=True
        )
        outputs.add(done.stdout)
    assert len(outputs) == 1
