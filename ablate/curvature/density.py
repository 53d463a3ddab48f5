"""The spectral density by stochastic Lanczos quadrature, with converged pairs as exact atoms.

The Ritz values of a space grown from a random unit vector v, weighted by the squared first entries of their vectors,
are a Gauss quadrature of v's spectral measure, whose mean is the density (Ghorbani, Krishnan and Xiao 2019; Ubaru, Chen
and Saad 2017). A converged pair is known exactly: it becomes an atom of weight 1/n, and the quadrature's remaining
weights describe the complement, of dimension n - k. What then is random is v only, and how much at most is known: the
share p of a subspace of n dimensions in v has variance 2 p (1 - p) / (n + 2) if v points anywhere alike. Of random
signs it is 2 (p n - sum of squares of the projection's diagonal) / n^2, at most 2 p (1 - p) / n (Hutchinson 1990), and
much less where eigenvectors lie along few parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ablate.curvature.lanczos import Array, Mask, Ritz


@dataclass(frozen=True)
class Share:
    """The share of eigenvalues below a number.

    Attributes:
        value: the quadrature's.
        standard_error: from the random start, by the quadrature's own numbers; at most, since signs vary less.
        low: the quadrature's lower bracket for the starts used (Chebyshev, Markov, Stieltjes).
        high: the upper one.
    """

    value: float
    standard_error: float
    low: float
    high: float


@dataclass(frozen=True)
class Density:
    """A probability measure on the eigenvalues: atoms, and one quadrature of the rest per probe.

    Attributes:
        atoms: (k,) eigenvalues that are known, of weight 1/n each.
        samples: nodes and weights of each probe; the weights sum to 1.
        dimension: n.
    """

    atoms: Array
    samples: tuple[tuple[Array, Array], ...]
    dimension: int

    @property
    def nodes(self) -> Array:
        """All nodes, ascending; their weights are ``weights``."""
        return self._joined[0]

    @property
    def weights(self) -> Array:
        """Weights of ``nodes``; they sum to 1."""
        return self._joined[1]

    @property
    def standard_errors(self) -> Array:
        """Standard error of the cumulative weight up to and with each node, from the random starts."""
        return np.array([self.share_below(np.nextafter(node, np.inf)).standard_error for node in self.nodes])

    def share_below(self, threshold: float) -> Share:
        """Return the share of eigenvalues below ``threshold``."""
        n, known = self.dimension, len(self.atoms)
        rest = (n - known) / n
        fixed = float((self.atoms < threshold).sum()) / n
        if not self.samples:
            return Share(fixed, 0.0, fixed, fixed)
        values, lows, highs = [], [], []
        for nodes, weights in self.samples:
            below = int((nodes < threshold).sum())
            values.append(weights[:below].sum())
            lows.append(weights[: max(below - 1, 0)].sum())
            highs.append(weights[: below + 1].sum())
        p = float(np.mean(values))
        error = np.sqrt(max(2 * p * (1 - p), 0.0) / (len(values) * (n - known)))
        low, high = fixed + rest * float(np.mean(lows)), fixed + rest * float(np.mean(highs))
        return Share(fixed + rest * p, rest * float(error), low, min(high, 1.0))

    def trace(self) -> tuple[float, float]:
        """Return the trace and its standard error: atoms, and Hutchinson's estimator on their complement."""
        size = self.dimension - len(self.atoms)
        total = float(self.atoms.sum())
        if not self.samples:
            return total, 0.0
        means = np.array([weights @ nodes for nodes, weights in self.samples])
        squares = np.array([weights @ nodes**2 for nodes, weights in self.samples])
        spreads = np.maximum(squares - means**2, 0.0)
        error = size * np.sqrt(2 * spreads.mean() / (len(means) * size))
        return total + size * float(means.mean()), float(error)

    @property
    def _joined(self) -> tuple[Array, Array]:
        n, count = self.dimension, len(self.samples)
        rest = (n - len(self.atoms)) / n
        nodes = np.concatenate([self.atoms, *(nodes for nodes, _ in self.samples)])
        weights = np.concatenate([np.full(len(self.atoms), 1 / n), *(w * rest / count for _, w in self.samples)])
        order = np.argsort(nodes, kind="stable")
        return nodes[order], weights[order]


def exact_density(eigenvalues: Array) -> Density:
    """Return the density of a spectrum that is known."""
    return Density(np.sort(eigenvalues), (), len(eigenvalues))


MOST_OF_ONE = 30.0
"""An eigenvector's squared share in a random start is chi-squared with one degree of freedom, over n: above 30/n with a
probability of 4e-8. A Ritz pair that has more stands for many eigenvalues, such as a null space."""


def locked(ritz: Ritz, rounding: float, tolerance: float, dimension: int) -> Mask:
    """Return which Ritz pairs of a random start count as one eigenvalue that is known: a mask (m,).

    A residual of ``tolerance`` times the largest value moves an atom by no more than that, so the density's
    Wasserstein-1 distance by no more than that over n.
    """
    scale = np.abs(ritz.values).max(initial=0.0)
    known = ritz.residuals <= max(tolerance * scale, rounding)
    return np.asarray(known & (ritz.first**2 <= MOST_OF_ONE / dimension))


def settled(now: Ritz, before: Ritz, dimension: int, starts: int) -> bool:
    """Return whether a quadrature changed less since an earlier step than its random start leaves open anyway.

    Both are Wasserstein-1 distances: the change, and the integral of the standard error of the share below.

    Args:
        now: of a random start.
        before: the same, some steps earlier: an odd number, since nodes around a null space come and go every second.
        dimension: n.
        starts: over how many the density will be averaged.
    """
    at = np.sort(np.concatenate([now.values, before.values]))
    below = [np.cumsum([0.0, *ritz.first**2])[np.searchsorted(ritz.values, at, side="right")] for ritz in (now, before)]
    p, gaps = below[0][:-1], np.diff(at)
    changed = np.abs(below[0] - below[1])[:-1] @ gaps
    return bool(changed <= np.sqrt(np.maximum(2 * p * (1 - p), 0.0) / (dimension * starts)) @ gaps)


def quadrature(ritz: Ritz, without: Mask) -> tuple[Array, Array]:
    """Return nodes and weights of the start vector's part outside the pairs in the mask ``without``."""
    keep = ~without
    weights = ritz.first[keep] ** 2
    return ritz.values[keep], weights / weights.sum()


def join(atoms: Array, samples: Sequence[tuple[Array, Array]], dimension: int) -> Density:
    """Return the density of atoms and of the probes of their complement."""
    return Density(np.sort(atoms), tuple((n, w) for n, w in samples if len(n)), dimension)
