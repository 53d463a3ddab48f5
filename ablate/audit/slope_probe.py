"""Reading a slope off the loss: steps to both sides of the parameters, and what the differences can be trusted with."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor

from ablate.audit.steps import Directions

Verdict = Literal["clean", "bug", "kink", "unjudged"]

EPS = torch.finfo(torch.float64).eps
STEP = 2 * EPS**0.5
"""Relative to a parameter's size. Smooth losses are best read at eps**(1/3), where rounding, eps / h, meets curvature,
h**2. In a ReLU net a share h of all units crosses its kink, with random signs: an error of h**(1/2), best read at
eps**(2/3). This is between the two."""
ROUNDING = 4.0
"""Rounding of one loss in units of eps |loss|, if it is a mean: summed pairwise, it errs by less."""
RATIO = 4.0
"""Between the two step sizes."""
SURE = 10.0
"""A departure must be this many times what kinks, truncation and rounding were seen to do."""
SIGHT = 0.01
"""The relative fault in one parameter's gradient that the check is meant to see."""
CONSTANTS = 2.0**-22
"""Relative error that is let pass: some of torch's float64 kernels hold constants in float32 (hardsigmoid's 1/6)."""
LADDER = (0, -1, 1, -2, 2, 3)
"""Powers of 8 by which the step is altered where two steps do not tell."""


class NotFinite(Exception):
    """A loss at the end of a step is not finite."""


class Spent(Exception):
    """The evaluations allowed are used up."""


@dataclass(frozen=True)
class Reading:
    """What one direction over some parameters says.

    Attributes:
        verdict: of this direction alone.
        error: |<gradient, direction> - slope|.
        scale: root of the summed squares of the parameters' parts of <gradient, direction>, or |slope| if larger.
        bound: what rounding, truncation and kinks explain of the error.
        unseen: parameters whose part is so small that ``SIGHT`` of it is within the bound.
        slope: of the loss.
        predicted: <gradient, direction>.
    """

    verdict: Verdict
    error: float
    scale: float
    bound: float
    unseen: tuple[str, ...]
    slope: float = 0.0
    predicted: float = 0.0

    def sees(self, names: Sequence[str]) -> bool:
        """Whether a fault would be seen in at least half of the parameters."""
        return 2 * len(self.unseen) <= len(names)


@dataclass(frozen=True)
class _Pair:
    """Losses at both ends of a step; ``predicted`` is <gradient, what was really added> per unit of step."""

    step: float
    ahead: float
    behind: float
    predicted: float

    @property
    def slope(self) -> float:
        return (self.ahead - self.behind) / (2 * self.step)

    @property
    def off(self) -> float:
        return self.predicted - self.slope

    @property
    def rounding(self) -> float:
        return ROUNDING * EPS * (abs(self.ahead) + abs(self.behind)) / (2 * self.step)


class Probe:
    """Moves parameters in place and reads the loss; use it inside ``put_back``, without autograd.

    Attributes:
        forwards: how often the loss was evaluated.
        parameters: name -> tensor.
        gradients: name -> finite float64 tensor on the CPU; absent means 0.
    """

    def __init__(
        self,
        loss: Callable[[], float],
        parameters: Mapping[str, Tensor],
        gradients: Mapping[str, Tensor],
        directions: Directions,
        most_forwards: int,
    ) -> None:
        self.forwards = 0
        self.parameters = parameters
        self.gradients = gradients
        self._loss = loss
        self._directions = directions
        self._most_forwards = most_forwards
        self._start = {name: p.detach().clone() for name, p in parameters.items()}
        self._here = 0.0
        self._step = STEP

    @contextmanager
    def put_back(self) -> Iterator[None]:
        """Put every parameter back bit for bit, also on an exception."""
        try:
            yield
        finally:
            with torch.no_grad():
                self._home(tuple(self.parameters))

    def repeatable(self) -> bool:
        """Read the loss where it is, twice; False if it is not finite or not the same."""
        try:
            self._here = self._evaluate()
            return self._evaluate() == self._here
        except NotFinite:
            return False

    def screen(self, names: Sequence[str]) -> list[Reading]:
        """Read three directions at two steps each: 12 evaluations.

        Raises:
            NotFinite: a loss is not.
            Spent: no evaluations are left.
        """
        opening = self._pair(names, 0, self._step)
        total = self._directions.total(names)
        usual = self._step
        if total > 0:
            size = (abs(opening.ahead) + abs(opening.behind)) / 2
            self._step *= min(max((size / total) ** (1 / 3), 0.5), 2000.0)
        second = self._step if not 1 / RATIO < self._step / usual < RATIO else usual * RATIO
        small, large = sorted([opening, self._pair(names, 0, second)], key=lambda pair: pair.step)
        pairs = [(small, large)]
        for index in (1, 2):
            pairs.append((self._pair(names, index, self._step), self._pair(names, index, self._step * RATIO)))
        return [self._screened(names, index, small, large) for index, (small, large) in enumerate(pairs)]

    def _screened(self, names: Sequence[str], index: int, small: _Pair, large: _Pair) -> Reading:
        apart = abs(small.off - large.off)
        # Richardson; kinks do not follow his rule, so that for steps in RATIO the whole disagreement counts, fourfold
        at_small = small.rounding + 4 * RATIO**2 * apart / ((large.step / small.step) ** 2 - 1)
        at_large = large.rounding + 2 * apart
        # rounding spoils the small step, curvature the large one: the one that tells more counts
        pair, bound = (small, at_small) if at_small <= at_large else (large, at_large)
        return self._reading(names, index, pair, bound)

    def judge(self, names: Sequence[str], directions: Sequence[int]) -> Reading:
        """Read directions at many steps; clean only if every one agrees, a bug only if every one departs, and surely.

        Returns:
            The one that is least sure, of a bug as of its absence.

        Raises:
            Spent: no evaluations are left.
        """
        readings = [self._ladder(names, index) for index in directions]
        doubtful = [reading for reading in readings if reading.verdict in ("kink", "unjudged")]
        departing = [reading for reading in readings if reading.verdict == "bug"]
        if doubtful or len(departing) == len(readings):
            return min(doubtful or readings, key=lambda reading: reading.error)
        if departing:
            return replace(departing[0], verdict="kink")
        return min(readings, key=lambda reading: reading.bound)

    def judge_alone(self, name: str, directions: Sequence[int]) -> Reading:
        """Read directions of one parameter until one does not depart.

        Raises:
            Spent: no evaluations are left.
        """
        readings = []
        for index in directions:
            readings.append(self._ladder((name,), index))
            if readings[-1].verdict != "bug":
                return readings[-1]
        return min(readings, key=lambda reading: reading.error)

    def _ladder(self, names: Sequence[str], index: int) -> Reading:
        pairs: list[_Pair] = []
        for power in LADDER:
            try:
                pairs.append(self._pair(names, index, self._step * 8.0**power))
            except NotFinite:
                continue
            pairs.sort(key=lambda pair: pair.step)
            found = self._best(names, index, pairs)
            # a step that rounding spoils or a kink crosses is no reason to stop; one that tells is
            if found and len(pairs) > 2 and found.verdict in ("clean", "bug") and not found.unseen:
                return found
        return self._best(names, index, pairs) or Reading("unjudged", 0.0, 0.0, 0.0, tuple(names))

    def _best(self, names: Sequence[str], index: int, pairs: Sequence[_Pair]) -> Reading | None:
        """Return what the two neighbouring steps that agree best say."""
        readings = []
        for small, large in pairwise(pairs):
            bound = 2 * abs(small.off - large.off) + small.rounding
            # one-sided slopes: their distance is curvature times the step, or stays, on a kink
            near, far = (abs(pair.ahead - 2 * self._here + pair.behind) / pair.step for pair in (small, large))
            corner = max(0.0, near - 2 * far * (small.step / large.step) - 4 * small.rounding)
            readings.append(self._reading(names, index, small, bound, corner))
        return min(readings, key=lambda reading: reading.bound, default=None)

    def _reading(self, names: Sequence[str], index: int, pair: _Pair, bound: float, corner: float = 0.0) -> Reading:
        shares = {name: abs(self._directions.share(name, index)) for name in names}
        scale = max(math.sqrt(sum(share * share for share in shares.values())), abs(pair.slope))
        bound += CONSTANTS * scale
        error = abs(pair.off)
        verdict: Verdict
        if error <= bound:
            verdict = "clean"
        elif error > SURE * (bound + corner):
            verdict = "bug"
        else:
            verdict = "kink" if bound + corner > SURE * (pair.rounding + CONSTANTS * scale) else "unjudged"
        unseen = tuple(name for name, share in shares.items() if share > 0 and SIGHT * share <= bound + corner)
        return Reading(verdict, error, scale, bound + corner, unseen, pair.slope, pair.predicted)

    def _pair(self, names: Sequence[str], index: int, step: float) -> _Pair:
        """Read the loss at both ends; the prediction uses the differences that rounding really left."""
        moves = {name: self._directions.of(name, index) for name in names}
        ahead: dict[str, Tensor] = {}
        ends = []
        predicted = 0.0
        try:
            for sign in (1.0, -1.0):
                for name, move in moves.items():
                    p = self.parameters[name]
                    p.copy_(self._start[name] + (sign * step) * move.to(p.device))
                    if name in self.gradients and sign > 0:
                        ahead[name] = p.detach().clone()
                    elif name in self.gradients:
                        # the ends are close together, so that their difference is exact (Sterbenz)
                        predicted += float((self.gradients[name] * (ahead[name] - p.detach()).cpu()).sum())
                ends.append(self._evaluate())
        finally:
            self._home(names)
        return _Pair(step, ends[0], ends[1], predicted / (2 * step))

    def _evaluate(self) -> float:
        if self.forwards >= self._most_forwards:
            raise Spent
        self.forwards += 1
        value = float(self._loss())
        if not math.isfinite(value):
            raise NotFinite
        return value

    def _home(self, names: Sequence[str]) -> None:
        for name in names:
            self.parameters[name].copy_(self._start[name])
