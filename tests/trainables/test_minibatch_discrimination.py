"""Minibatch discrimination against three nested loops in float64, written from Salimans et al. 2016, section 3.2."""

import math

import pytest
import torch

from trainables.minibatch_discrimination import MinibatchDiscrimination, closeness

U32 = 2.0**-24
U64 = 2.0**-53
N, A, B, C = 6, 7, 4, 3


def literal(f, tensor):
    """o as the formula says it, in plain Python floats."""
    n, a = len(f), len(f[0])
    kernels, size = len(tensor[0]), len(tensor[0][0])
    m = [
        [[math.fsum(f[i][k] * tensor[k][b][c] for k in range(a)) for c in range(size)] for b in range(kernels)]
        for i in range(n)
    ]
    o = [[0.0] * kernels for _ in range(n)]
    for i in range(n):
        for b in range(kernels):
            for j in range(n):
                distance = math.fsum(abs(m[i][b][c] - m[j][b][c]) for c in range(size))
                o[i][b] += math.exp(-distance)
    return o


def literal_gradient(f, tensor, weights):
    """d/dT of sum_ib weights_ib o(x_i)_b, by the chain rule on the formula, term by term."""
    n, a = len(f), len(f[0])
    kernels, size = len(tensor[0]), len(tensor[0][0])
    m = [
        [[math.fsum(f[i][k] * tensor[k][b][c] for k in range(a)) for c in range(size)] for b in range(kernels)]
        for i in range(n)
    ]
    by_tensor = [[[0.0] * size for _ in range(kernels)] for _ in range(a)]
    by_f = [[0.0] * a for _ in range(n)]
    for i in range(n):
        for b in range(kernels):
            for j in range(n):
                close = math.exp(-math.fsum(abs(m[i][b][c] - m[j][b][c]) for c in range(size)))
                for c in range(size):
                    difference = m[i][b][c] - m[j][b][c]
                    sign = (difference > 0) - (difference < 0)
                    for k in range(a):
                        by_tensor[k][b][c] -= weights[i][b] * close * sign * (f[i][k] - f[j][k])
                        by_f[i][k] -= weights[i][b] * close * sign * tensor[k][b][c]
                        by_f[j][k] += weights[i][b] * close * sign * tensor[k][b][c]
    return by_tensor, by_f


@pytest.fixture
def numbers():
    generator = torch.Generator().manual_seed(3)
    shapes = {"f": (N, A), "tensor": (A, B, C), "weights": (N, B)}
    return {name: torch.randn(shape, generator=generator, dtype=torch.float64) for name, shape in shapes.items()}


def bound(u, f, tensor):
    """Relative error of one c_b: that of exp's argument is absolute in it.

    Each of C differences of two sums of A products is off by at most (A + 2) u (|f| |T| of i and of j); their sum adds
    C u of itself, exp and the sum over N terms (N + 2) u.
    """
    size = (f.abs() @ tensor.abs().flatten(1)).max().item()
    return u * (C * (A + 2 + C) * 2 * size + N + 2)


@pytest.mark.parametrize(("dtype", "u"), [(torch.float64, U64), (torch.float32, U32)])
def test_forward_is_the_literal_triple_loop(numbers, dtype, u):
    f, tensor = (numbers[name].to(dtype) for name in ("f", "tensor"))
    expected = torch.tensor(literal(f.double().tolist(), tensor.double().tolist()), dtype=torch.float64)
    found = closeness(f, tensor).double()
    assert found.shape == (N, B)
    assert ((found - expected).abs() <= bound(u, f.double(), tensor.double()) * expected).all()


@pytest.mark.parametrize(("dtype", "u"), [(torch.float64, U64), (torch.float32, U32)])
def test_the_gradient_is_that_of_the_literal_loop(numbers, dtype, u):
    f, tensor, weights = (numbers[name].to(dtype) for name in ("f", "tensor", "weights"))
    f.requires_grad_()
    tensor.requires_grad_()
    (weights * closeness(f, tensor)).sum().backward()
    given = [one.detach().double() for one in (f, tensor, weights)]
    by_tensor, by_f = literal_gradient(*(one.tolist() for one in given))
    relative = bound(u, *given[:2]) + u * (2 * N * C + A + 4)  # of a term, and of sums of terms
    size = {"f": 2 * N * C * given[1].abs().max(), "tensor": N * N * 2 * given[0].abs().max()}
    largest = given[2].abs().max()  # no c_b is above 1
    for name, found, expected in (("tensor", tensor.grad, by_tensor), ("f", f.grad, by_f)):
        difference = (found.double() - torch.tensor(expected, dtype=torch.float64)).abs().max()
        assert difference <= relative * size[name] * largest * (B if name == "f" else 1)


def test_the_sum_holds_each_sample_itself(numbers):
    """As the formula has it: one sample alone gives 1, and n equal ones n."""
    f, tensor = numbers["f"], numbers["tensor"]
    assert torch.equal(closeness(f[:1], tensor), torch.ones(1, B, dtype=torch.float64))
    assert torch.equal(closeness(f[:1].expand(5, A), tensor), torch.full((5, B), 5.0, dtype=torch.float64))


def test_samples_far_apart_see_only_themselves(numbers):
    f = 1e4 * torch.arange(N, dtype=torch.float64)[:, None] * torch.ones(A, dtype=torch.float64)
    assert torch.equal(closeness(f, numbers["tensor"]), torch.ones(N, B, dtype=torch.float64))


def test_reordered_rows_give_reordered_rows_and_half_a_batch_gives_others(numbers):
    f, tensor = numbers["f"], numbers["tensor"]
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    whole = closeness(f, tensor)
    torch.testing.assert_close(closeness(f[order], tensor), whole[order], rtol=(N + 1) * U64, atol=0)
    assert (closeness(f[: N // 2], tensor) < whole[: N // 2]).all()


def test_what_is_seen_next_is_f_and_o_side_by_side(numbers):
    torch.manual_seed(0)
    layer = MinibatchDiscrimination(A, B, C).double()
    assert layer.tensor.shape == (A, B, C)
    found = layer(numbers["f"])
    assert torch.equal(found[:, :A], numbers["f"])
    assert torch.equal(found[:, A:], closeness(numbers["f"], layer.tensor))


def test_it_can_be_differentiated_twice(numbers):
    """As a probe of the curvature needs: where a backward is differentiable once only, this raises or is zero."""
    f, tensor = numbers["f"], numbers["tensor"].requires_grad_()
    assert torch.autograd.gradgradcheck(lambda t: closeness(f, t), [tensor])
