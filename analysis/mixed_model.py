"""Do two kinds of machines differ, where machines of a kind differ too? A mixed model with machine nested in kind.

Trials on one machine are not independent evidence about its kind: they share what is the machine's own. So the unit of
replication for a kind is the machine. The model, fitted by restricted maximum likelihood
(``statsmodels.regression.mixed_linear_model.MixedLM``):

    outcome = block (fixed) + kind (fixed) + machine (random, a variance for each kind) + kind x block (random) + trial

**kind x block** is there because machines of one kind may round alike, and then a seed takes all of them the same way:
without it the model calls that a property of the kind (``docs/statistics.md`` says how often). **A variance for each
kind**, because CPUs of one make may agree bit by bit while GPUs scatter: one common variance rejects too often when the
kind with fewer machines scatters more.

**p** is from Student's t, as Wald's z takes a variance from a handful of machines for known. Its degrees of freedom are
Satterthwaite's (Biometrics Bulletin 2, 1946) for the variance of the difference, the sum of each kind's machines' (one
less than its machines) and the blocks' (one less than the blocks). With fewer than ``FEWEST_MACHINES`` of a kind that
is too many, so the smallest of these is taken instead, which is never too many (Mickey and Brown, Ann. Math. Statist.
37, 1966).

The optimiser is Powell's, which needs no gradient: statsmodels' default stops short where a variance is 0.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

Array = np.ndarray[Any, np.dtype[np.float64]]
Codes = np.ndarray[Any, np.dtype[np.int64]]

FEWEST_MACHINES = 4
"""Of each kind, for Satterthwaite's degrees of freedom."""


@dataclass(frozen=True)
class KindEffect:
    """The second kind's outcome less the first's. The unit is the machine: it speaks of new machines and new seeds.

    Attributes:
        difference: in the outcome's unit.
        standard_error: of the difference.
        freedom: degrees of freedom.
        p: two-sided.
        low: lower end of the 95 % interval.
        high: upper end.
        machine_sd: standard deviation between machines of the first and of the second kind.
        seed_sd: standard deviation between seeds of what a kind's machines share.
        trial_sd: standard deviation of what is left, between trials.
    """

    difference: float
    standard_error: float
    freedom: float
    p: float
    low: float
    high: float
    machine_sd: tuple[float, float]
    seed_sd: float
    trial_sd: float


def kind_effect(values: Array, kind: Codes, machine: Codes, block: Codes) -> KindEffect | None:
    """Fit the model.

    Args:
        values: one outcome for each machine and block, shape (n,), finite; some may be missing.
        kind: 0 or 1, shape (n,).
        machine: from 0 without a gap, each of one kind, shape (n,); at least 2 of each kind.
        block: from 0 without a gap, shape (n,); at least 2.

    Returns:
        KindEffect | None: None where the variances cannot be told apart (one block too few, or nothing that varies).
    """
    blocks, machines = int(block.max()) + 1, int(machine.max()) + 1
    sizes = [len(np.unique(machine[kind == which])) for which in (0, 1)]
    scale = float(np.std(values))
    if scale == 0 or len(values) <= blocks + machines:
        return None
    together = _together(values, kind, block)
    if together is not None:
        return together
    fitted = _fit((values - np.mean(values)) / scale, kind, machine, block, blocks, machines)
    if fitted is None:
        return None
    difference, error, variances, rest = fitted
    each = [len(values) / machines * size for size in sizes]  # trials of a kind
    own = [variances[which] / sizes[which] + rest / each[which] for which in (0, 1)]
    shared = 2 * variances[2] / blocks + sum(rest / count for count in each)
    parts = [*zip(own, (size - 1 for size in sizes), strict=True), (shared, blocks - 1)]
    freedom = _freedom(error**2, parts, min(sizes))
    reach = float(stats.t.ppf(0.975, freedom)) * error
    return KindEffect(
        difference=scale * difference,
        standard_error=scale * error,
        freedom=freedom,
        p=float(2 * stats.t.sf(abs(difference) / error, freedom)),
        low=scale * (difference - reach),
        high=scale * (difference + reach),
        machine_sd=(scale * variances[0] ** 0.5, scale * variances[1] ** 0.5),
        seed_sd=scale * variances[2] ** 0.5,
        trial_sd=scale * rest**0.5,
    )


def _together(values: Array, kind: Codes, block: Codes) -> KindEffect | None:
    """Return the model's limit where machines of a kind agree bit by bit, which leaves blocks alone; else None."""
    cells = [[values[(kind == which) & (block == one)] for one in range(int(block.max()) + 1)] for which in (0, 1)]
    if any(len(cell) and np.ptp(cell) > 0 for cell in (*cells[0], *cells[1])):
        return None
    gaps = np.array([b[0] - a[0] for a, b in zip(*cells, strict=True) if len(a) and len(b)])
    if len(gaps) < 2 or np.ptp(gaps) == 0:
        return None
    mean, error, freedom = float(np.mean(gaps)), float(stats.sem(gaps)), len(gaps) - 1
    reach = float(stats.t.ppf(0.975, freedom)) * error
    p = float(2 * stats.t.sf(abs(mean) / error, freedom))
    seed_sd = error * (len(gaps) / 2) ** 0.5
    return KindEffect(mean, error, freedom, p, mean - reach, mean + reach, (0.0, 0.0), seed_sd, 0.0)


def _freedom(total: float, parts: list[tuple[float, int]], machines: int) -> float:
    fewest = min(freedom for _, freedom in parts)
    if machines < FEWEST_MACHINES:
        return float(fewest)
    return float(max(total**2 / sum(part**2 / freedom for part, freedom in parts), 1.0))


def _fit(
    values: Array, kind: Codes, machine: Codes, block: Codes, blocks: int, machines: int
) -> tuple[float, float, list[float], float] | None:
    """Return difference, its standard error, the variances (machines of either kind, kind x block) and the rest's."""
    # not above: the import takes the better part of a second, and few grids say of which kind a machine is
    from statsmodels.regression.mixed_linear_model import MixedLM, VCSpec

    fixed = np.column_stack([kind, block[:, None] == np.arange(blocks)]).astype(np.float64)
    own = (machine[:, None] == np.arange(machines)).astype(np.float64)
    shared = ((kind * blocks + block)[:, None] == np.arange(2 * blocks)).astype(np.float64)
    designs = [_used(own * (kind == which)[:, None]) for which in (0, 1)] + [_used(shared)]
    names = ["machine of the first", "machine of the second", "kind x block"]
    columns = [[f"{name} {i}" for i in range(one.shape[1])] for name, one in zip(names, designs, strict=True)]
    components = VCSpec(names, [[one] for one in columns], [[one] for one in designs])
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # a variance of 0, the edge of what is possible, is an answer here
        try:
            model = MixedLM(values, fixed, groups=np.zeros(len(values)), exog_vc=components)
            result = model.fit(reml=True, method=["powell"], maxiter=10_000, ftol=1e-8)
            error = float(result.bse_fe[0])
        except np.linalg.LinAlgError:
            return None
    variances, rest = [float(v) for v in result.vcomp], float(result.scale)
    known = np.isfinite([error, *variances, rest]).all() and error > 0 and result.converged
    return (float(result.fe_params[0]), error, variances, rest) if known else None


def _used(design: Array) -> Array:
    return design[:, design.any(axis=0)]
