"""Minibatch discrimination: a discriminator's layer that looks at how close a batch's samples are to each other.

Salimans et al. 2016 (arXiv 1606.03498, section 3.2). For samples i = 1..n of a batch, features f(x_i) in R^A and a
learned tensor T in R^(A x B x C):

    M_i = f(x_i) T                                in R^(B x C)
    c_b(x_i, x_j) = exp(-||M_(i,b) - M_(j,b)||_1)
    o(x_i)_b = sum over j = 1..n of c_b(x_i, x_j)

The next layer sees f(x_i) and o(x_i), concatenated. If the generator gives the same sample over and over, o shows it in
every one of them, and the discriminator's gradient tells them apart from real ones together, not one by one.

The formula's sum has j = i in it, and so it has here: a constant 1, which moves no gradient and is taken up by the
next layer's bias. (The authors' own code leaves it out, by adding 1e6 to that distance.) As in the paper, o is computed
apart for a real and a generated batch. Rows may come in any order, but they are not independent of each other: a batch
in two halves gives another loss.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class MinibatchDiscrimination(nn.Module):
    """Appends B numbers to every sample's features.

    Args:
        features: A, of each sample.
        kernels: B, kernels that are compared.
        size: C, numbers in each kernel.
    """

    def __init__(self, features: int, kernels: int, size: int) -> None:
        super().__init__()
        # Columns of length 1 on average, as in the authors' code before it fits them to data; the paper names no scale.
        self.tensor = nn.Parameter(torch.randn(features, kernels, size) / math.sqrt(features))

    def forward(self, f: Tensor) -> Tensor:
        """Return (n, A + B), f and o, of f (n, A)."""
        return torch.cat([f, closeness(f, self.tensor)], dim=1)


def closeness(f: Tensor, tensor: Tensor) -> Tensor:
    """Return o (n, B) of f (n, A) and T (A, B, C).

    The n x n x B x C differences are in memory: ``torch.cdist`` would save them, but has no second derivative.
    """
    _, b, c = tensor.shape
    m = (f @ tensor.flatten(1)).view(-1, b, c)
    distances = (m[:, None] - m[None]).abs().sum(dim=-1)
    return torch.exp(-distances).sum(dim=1)
