"""How much of a data set a generator gives: two measures of mode collapse, in float64, on pixels.

*Diversity*: mean Euclidean distance between two samples, over that between two real images. 0: one image over and over;
1: as far apart as real images. Noise may have 1 too, so it is no measure of quality.

*Coverage* (Naeem et al. 2020, arXiv 2002.09797, section 3.2): the share of real images that have a sample within the
distance to their own k-th nearest real neighbour. As many samples as real images and drawn like them cover all but
(n-1)...(n-k) / ((2n-1)...(2n-k)), so .97 for k = 5, as they derive; noise covers none. They look at features of a
trained network. Pixels need none, but are kind to blur: the mean of the digits that ship, one image, covers .46 of
those held out, being nearer to an unusual digit than its neighbours are. So coverage goes with diversity, never alone.
Recall (Kynkaanniemi et al. 2019, arXiv 1904.06991) is not used: one outlier among the samples, whose neighbourhood is
large, may raise it, as Naeem et al. show.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial.distance import cdist, pdist

Rows = np.ndarray[Any, np.dtype[Any]]

NEIGHBOURS = 5
"""k, as Naeem et al. choose it."""


class RealImages:
    """Real images that samples are compared with; what concerns them alone is computed once.

    Args:
        rows: (M, P), an image a row.
        k: whose distance is an image's radius: that of its k-th nearest.

    Raises:
        ValueError: if M is not more than k, or all images are the same.
    """

    def __init__(self, rows: Rows, k: int = NEIGHBOURS) -> None:
        if len(rows) <= k:
            raise ValueError(f"{len(rows)} real images, but each is asked for its neighbour number {k}")
        self._rows = rows.astype(np.float64)
        self._distance = float(pdist(self._rows).mean())
        if self._distance == 0:
            raise ValueError("all real images are the same: there is no diversity to compare with")
        apart = cdist(self._rows, self._rows)
        np.fill_diagonal(apart, np.inf)  # an image is no neighbour of itself
        self._radius = np.partition(apart, k - 1, axis=1)[:, k - 1]

    def diversity(self, samples: Rows) -> float:
        """Return the mean pairwise distance of samples (N, P), N at least 2, over that of the real images."""
        return float(pdist(samples.astype(np.float64)).mean()) / self._distance

    def coverage(self, samples: Rows) -> float:
        """Return the share of real images with at least one of samples (N, P) within their radius."""
        nearest = cdist(self._rows, samples.astype(np.float64)).min(axis=1)
        return float((nearest <= self._radius).mean())
