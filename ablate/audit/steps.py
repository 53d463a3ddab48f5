"""Seeded directions for the slope check, in which every parameter weighs.

A parameter's part of a direction is ``size * (normals + 2 * sign * gradient / ||gradient||)``. The normals meet any
error in its gradient with the error's own norm, on average; the second term meets a wrong scale or sign for certain.
Both have parts of order 1 in each element, so that ``size`` is how far the parameter moves, relative to the step.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

ALONG = 2.0
RAISE = 10.0
"""How much further than its own size a parameter may move: truncation grows with the cube of it."""


class Directions:
    """Directions over all parameters, numbered from 0; made anew each time they are asked for, so nothing is kept."""

    def __init__(self, parameters: Mapping[str, Tensor], gradients: Mapping[str, Tensor], seed: int) -> None:
        """Find each parameter's size.

        Args:
            parameters: name -> float64 tensor on the CPU, none empty.
            gradients: name -> finite float64 tensor on the CPU; absent means 0.
            seed: any integer; its lowest 64 bits count.
        """
        self._seed = seed & (2**64 - 1)
        self._shapes = {name: tuple(p.shape) for name, p in parameters.items()}
        self._place = {name: place for place, name in enumerate(parameters)}
        self._gradients = gradients
        self._shares: dict[tuple[str, int], float] = {}
        self._norms = {
            name: float(torch.linalg.vector_norm(gradients[name])) if name in gradients else 0.0 for name in parameters
        }
        self._sizes = self._find_sizes(parameters)

    def of(self, name: str, index: int) -> Tensor:
        """Return one parameter's part of direction ``index``: float64, its shape, on the CPU."""
        key = [self._seed, (index << 32) + self._place[name]]
        generator = np.random.Generator(np.random.Philox(key=np.array(key, dtype=np.uint64)))
        sign = 1.0 if generator.integers(2) else -1.0
        part = torch.from_numpy(np.asarray(generator.standard_normal(self._shapes[name])))
        if self._norms[name] > 0:
            part = part + ALONG * sign * (self._gradients[name] / self._norms[name])
        return part * self._sizes[name]

    def share(self, name: str, index: int) -> float:
        """Return <gradient, direction> of one parameter."""
        if name not in self._gradients:
            return 0.0
        if (name, index) not in self._shares:
            self._shares[name, index] = float((self._gradients[name] * self.of(name, index)).sum())
        return self._shares[name, index]

    def total(self, names: Sequence[str]) -> float:
        """Return the root mean square of <gradient, direction> over directions."""
        return math.sqrt(sum((1 + ALONG**2) * (self._sizes[n] * self._norms[n]) ** 2 for n in names))

    def _find_sizes(self, parameters: Mapping[str, Tensor]) -> dict[str, float]:
        """Root mean square of each; a parameter of zeros moves as far as makes its share of the slope a usual one."""
        sizes = {name: float(torch.linalg.vector_norm(p)) / math.sqrt(p.numel()) for name, p in parameters.items()}
        shares = [sizes[name] * self._norms[name] for name in sizes if sizes[name] * self._norms[name] > 0]
        usual_size = statistics.median([size for size in sizes.values() if size > 0] or [1.0])
        usual, most = (statistics.median(shares), max(shares)) if shares else (0.0, 0.0)
        for name, size in sizes.items():
            if size == 0:
                norm = self._norms[name]
                sizes[name] = usual / norm if norm > 0 and usual > 0 else usual_size
            elif self._norms[name] > 0:
                sizes[name] = size * min(max(most / (size * self._norms[name]), 1.0), RAISE)
        return sizes
