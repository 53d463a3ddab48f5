"""How likely it is that a Krylov space shows nothing of an eigenvalue that lies farther out than all it shows.

Row j of the basis is p_j(A) applied to the start, with the polynomials p_j that are orthonormal under the start's
spectral measure. Where an eigenvector of the eigenvalue x has the component c of the start, it has c p_j(x) of row j,
and of all rows together 1 at most: c^2 <= 1 / (sum of p_j(x)^2), Christoffel's function, the largest mass at x that the
measure's known moments allow (Krein and Nudelman 1977). Outside the Ritz values it falls with the distance.

So where an eigenvalue at x or farther out has gone unseen, the start has next to nothing of its eigenvector. How likely
that is is known before anything is measured: the square of a component of a unit vector in n dimensions that points
anywhere alike is beta distributed, and below s^2 with a probability of at most s sqrt(2 n / pi). This holds whenever
the space stops growing, and whatever the spectrum is (Kuczynski and Wozniakowski 1992 bound the same before the
products are made, so by far more).

If only the share w of the start's square points anywhere and the rest is known vectors, c is a known number plus
sqrt(w) times such a component. What is added makes c fall within s of 0 no more often, since such a component is
likeliest there: the chance is at most that of s^2 / w.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

HUGE = 1e150
"""Its square can still be had; what would be larger is no chance."""


def largest_mass(diagonal: Sequence[float], beside: Sequence[float], place: float) -> float:
    """Return the largest share of a start's square that an eigenvector of the eigenvalue ``place`` can have.

    Args:
        diagonal: (m,) of the operator in the basis.
        beside: (m,) norms of what each product added; the last may be 0, of an invariant space.
        place: outside the Ritz values.
    """
    before, value, coupling, total = 0.0, 1.0, 0.0, 1.0
    for entry, following in zip(diagonal, beside, strict=True):
        if following == 0:
            break
        before, value = value, ((place - entry) * value - coupling * before) / following
        coupling = following
        if abs(value) > HUGE:
            return 0.0
        total += value * value
    return 1 / total


def chance(mass: float, dimension: int) -> float:
    """Return the largest probability that a random start has no more than ``mass`` of an eigenvector.

    Of a start of random signs that is about so where the eigenvector lies on many parameters; the noise in it makes it
    1 / ``NOISE`` times as much at most, whatever it lies on.

    Args:
        mass: the share of the start's square.
        dimension: n.
    """
    return min(math.sqrt(2 * dimension * mass / math.pi), 1.0)
