"""The spectral density by stochastic Lanczos quadrature, with converged pairs as exact atoms and a node at 0.

The Ritz values of a space grown from a random unit vector v, weighted by the squared first entries of their vectors,
are a Gauss quadrature of v's spectral measure, whose mean is the density (Ghorbani, Krishnan and Xiao 2019; Ubaru, Chen
and Saad 2017). A converged pair is known exactly: it becomes an atom of weight 1/n, and the quadrature's remaining
weights describe the complement, of dimension n - k; ``quadrature.py`` gives it a node at 0. What then is random is v
only, and how much at most is known: the share p of a subspace of n dimensions in v has variance 2 p (1 - p) / (n + 2)
if v points anywhere alike. Of random signs it is 2 (p n - sum of squares of the projection's diagonal) / n^2, at most
2 p (1 - p) / n (Hutchinson 1990), and much less where eigenvectors lie along few parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ablate.curvature.lanczos import Array, Mask, Ritz
from ablate.curvature.quadrature import Quadrature


@dataclass(frozen=True)
class Share:
    """The share of eigenvalues below a number.

    Attributes:
        value: the quadrature's.
        standard_error: from the random start, by the quadrature's own numbers; at most, since signs vary less.
        low: the lower bracket for the starts used: no measure with the moments that are known has less (Chebyshev,
            Markov, Stieltjes). Far from ``high`` where many eigenvalues lie nearer to the threshold than a polynomial
            of twice the steps' degree can tell apart, as around 0.
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
        samples: the quadrature of each probe.
        dimension: n.
    """

    atoms: Array
    samples: tuple[Quadrature, ...]
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
        return np.array([self._below(float(np.nextafter(node, np.inf)))[1] for node in self.nodes])

    def share_below(self, threshold: float) -> Share:
        """Return the share of eigenvalues below ``threshold``."""
        value, error = self._below(threshold)
        if not self.samples:
            return Share(value, 0.0, value, value)
        lows, highs = np.mean([sample.below(threshold) for sample in self.samples], axis=0)
        return Share(
            value,
            error,
            self._known_below(threshold) + self._rest * float(lows),
            min(self._known_below(threshold) + self._rest * float(highs), 1.0),
        )

    def trace(self) -> tuple[float, float]:
        """Return the trace and its standard error: atoms, and Hutchinson's estimator on their complement."""
        size = self.dimension - len(self.atoms)
        total = float(self.atoms.sum())
        if not self.samples:
            return total, 0.0
        means = np.array([sample.weights @ sample.values for sample in self.samples])
        squares = np.array([sample.weights @ sample.values**2 for sample in self.samples])
        spreads = np.maximum(squares - means**2, 0.0)
        error = size * np.sqrt(2 * spreads.mean() / (len(means) * size))
        return total + size * float(means.mean()), float(error)

    def _known_below(self, threshold: float) -> float:
        return float((self.atoms < threshold).sum()) / self.dimension

    @property
    def _rest(self) -> float:
        return (self.dimension - len(self.atoms)) / self.dimension

    def _below(self, threshold: float) -> tuple[float, float]:
        """Return the share below and its standard error."""
        if not self.samples:
            return self._known_below(threshold), 0.0
        shares = [weights[nodes < threshold].sum() for nodes, weights in self._rules]
        p = float(np.clip(np.mean(shares), 0, 1))
        error = np.sqrt(2 * p * (1 - p) / (len(shares) * (self.dimension - len(self.atoms))))
        return self._known_below(threshold) + self._rest * p, self._rest * float(error)

    @cached_property
    def _rules(self) -> list[tuple[Array, Array]]:
        return [sample.rule() for sample in self.samples]

    @cached_property
    def _joined(self) -> tuple[Array, Array]:
        n, count = self.dimension, len(self.samples)
        nodes = np.concatenate([self.atoms, *(nodes for nodes, _ in self._rules)])
        weights = np.concatenate([np.full(len(self.atoms), 1 / n), *(w * self._rest / count for _, w in self._rules)])
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
    Wasserstein-1 distance by no more than that over n. A pair that the start has little of is found later, so those
    that are not known have less than their share: what is left of the trace is too small in size, by a part of its
    standard error, and still nearer than if only the ends were known.
    """
    scale = np.abs(ritz.values).max(initial=0.0)
    known = ritz.residuals <= max(tolerance * scale, rounding)
    return np.asarray(known & (ritz.first**2 <= MOST_OF_ONE / dimension))


def settled(now: Ritz, before: Ritz, dimension: int, starts: int) -> bool:
    """Return whether a quadrature changed less since an earlier step than its random start leaves open anyway.

    Both are Wasserstein-1 distances: the change, and the integral of the standard error of the share below.

    Args:
        now: of a random start.
        before: the same, some steps earlier.
        dimension: n.
        starts: over how many the density will be averaged.
    """
    rules = [quadrature(ritz, np.zeros(len(ritz.values), dtype=bool)).rule() for ritz in (now, before)]
    at = np.sort(np.concatenate([nodes for nodes, _ in rules]))
    below = [np.cumsum([0.0, *weights])[np.searchsorted(nodes, at, side="right")] for nodes, weights in rules]
    p, gaps = below[0][:-1], np.diff(at)
    changed = np.abs(below[0] - below[1])[:-1] @ gaps
    return bool(changed <= np.sqrt(np.maximum(2 * p * (1 - p), 0.0) / (dimension * starts)) @ gaps)


def quadrature(ritz: Ritz, without: Mask) -> Quadrature:
    """Return the quadrature of the start vector's part outside the pairs in the mask ``without``."""
    keep = ~without
    ends = float(ritz.values[0]), float(ritz.values[-1])
    return Quadrature(ritz.values[keep], ritz.first[keep], (np.sign(ritz.inner[-1]) * ritz.residuals)[keep], ends)


def join(atoms: Array, samples: Sequence[Quadrature], dimension: int) -> Density:
    """Return the density of atoms and of the probes of their complement."""
    return Density(np.sort(atoms), tuple(sample for sample in samples if len(sample.values)), dimension)
