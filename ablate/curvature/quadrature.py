"""Gauss-Radau quadrature of a random start's spectral measure: a rule with one node where it is wanted (Golub 1973).

Half of a Hessian's eigenvalues and more lie around 0. Of Gauss's rules every second has a node there, and the next one
has two beside it, so that the mass of half the spectrum moves with every step. A rule with a node at 0 does not, and it
is exact for polynomials of one degree more. With a node at a threshold, the weights below it and those up to it are the
best bounds on the share below that the moments allow (Chebyshev, Markov, Stieltjes; Krein and Nudelman 1977).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ablate.curvature.lanczos import Array

BEYOND = 1e6
"""A rule whose further node would lie so many times farther out than the spectrum's ends is that of Gauss, which then
has a node at the place wanted, up to 1e-6 of the spectrum's size; the eigenproblem would lose digits to the large
entry."""


@dataclass(frozen=True)
class Quadrature:
    """The spectral measure of a start vector, or of its part outside known pairs, as Ritz pairs know it.

    Attributes:
        values: (m,) Ritz values, ascending.
        first: (m,) the start's components along their vectors.
        last: (m,) what the operator takes each vector to outside the space, with a sign: its size is the residual.
        ends: of the spectrum, as far as it is known.
    """

    values: Array
    first: Array
    last: Array
    ends: tuple[float, float]

    @property
    def weights(self) -> Array:
        """Weights (m,) of ``values`` in Gauss's rule; they sum to 1."""
        square = self.first**2
        return np.asarray(square / square.sum())

    def rule(self) -> tuple[Array, Array]:
        """Return nodes, ascending, and weights: with a node at 0 if 0 lies inside the spectrum, else Gauss's.

        A further node that lies beyond the ends, where the weight is next to none, is moved to the end.
        """
        low, high = self.ends
        if not low < 0 < high:
            return self.values, self.weights
        nodes, weights = self.with_node(0.0)
        return np.clip(nodes, low, high), weights

    def below(self, threshold: float) -> tuple[float, float]:
        """Return the least and the largest share below a threshold of any measure with this one's moments."""
        if not self.last.any():  # the space is invariant: all of the measure is known
            share = float(self.weights[self.values < threshold].sum())
            return share, share
        nodes, weights = self.with_node(threshold)
        at = int(np.argmin(np.abs(nodes - threshold)))
        low = float(weights[:at].sum())
        return low, low + float(weights[at])

    def with_node(self, place: float) -> tuple[Array, Array]:
        """Return nodes, ascending, and weights of the rule that has a node at ``place``; they may exceed the ends.

        The space is extended by a vector to which each Ritz vector is coupled by ``last``, with the diagonal entry that
        makes ``place`` an eigenvalue: place + sum of last^2 / (value - place).
        """
        apart = self.values - place
        if (apart == 0).any():
            return self.values, self.weights
        entry = place + float((self.last**2 / apart).sum())
        if not self.last.any() or abs(entry) > BEYOND * max(abs(self.ends[0]), abs(self.ends[1])):
            return self.values, self.weights
        m = len(self.values)
        matrix = np.diag(np.append(self.values, entry))
        matrix[m, :m] = matrix[:m, m] = self.last
        nodes, vectors = np.linalg.eigh(matrix)
        square = (self.first @ vectors[:m]) ** 2
        return nodes, square / square.sum()
