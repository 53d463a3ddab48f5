"""The four tolerance classes; a test names the one it uses.

exact            ids, hashes, schemas, reruns on one device: ==, bit for bit; no number needed.
numerical        against float64 or a closed form: ``numerical(constant, dtype_eps, size, conditioning)``.
statistical      sample size fixed beforehand, must reject a planted bias: each test states both.
across devices   measured and reported, never asserted close.
"""

from __future__ import annotations


def numerical(eps: float, length: int, constant: float = 4.0, conditioning: float = 1.0) -> float:
    """Bound on the relative error of a sum or dot product of ``length`` terms in arithmetic with unit roundoff ``eps``.

    Higham, Accuracy and Stability of Numerical Algorithms (2002), section 3.1: |error| <= gamma_n = n u / (1 - n u),
    times the conditioning; the constant leaves room for the few further operations around the sum.
    """
    return constant * eps * length * conditioning
