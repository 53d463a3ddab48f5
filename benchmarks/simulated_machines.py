"""The pseudo-replication trap: machines of two kinds that differ from each other, while the kinds do not.

Every machine trains the same blocks. A test of trials takes those of one machine for independent evidence about its
kind, and finds a kind effect that is not there.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats
from statsmodels.regression.mixed_linear_model import MixedLM
from statsmodels.tools.sm_exceptions import ConvergenceWarning

from ablate.design.attainable import LEVEL
from analysis.mixed_model import kind_effect
from benchmarks.simulated_studies import BLOCKS, Rate, exact_p

Array = np.ndarray[Any, np.dtype[np.float64]]

EXPLANATION = (
    "The t test and the sign-flip test (of each block's difference of the kinds' means) know nothing of machines. The "
    "plain mixed model has a random intercept for each machine and Wald's z. The one in use "
    "(`analysis/mixed_model.py`) has a variance for each kind's machines, the interaction of kind and block, and "
    "Student's t with Satterthwaite's degrees of freedom, or the fewest with fewer than 4 machines of a kind."
)


@dataclass(frozen=True)
class World:
    """What is true of machines whose kinds have no effect, in standard deviations of a trial's own noise.

    Attributes:
        machines: how many there are of either kind.
        machine_sd: between machines of either kind.
        seed_sd: between seeds, of what all machines of a kind share.
        effect: of the second kind; 0 but to see the power.
        blocks: of each study.
        studies: how many to simulate at most; a mixed model takes some 50 to 150 ms to fit.
    """

    machines: tuple[int, int] = (4, 8)
    machine_sd: tuple[float, float] = (1.0, 1.0)
    seed_sd: float = 0.0
    effect: float = 0.0
    blocks: tuple[int, ...] = (10,)
    studies: int = 400


WORLDS: dict[str, World] = {
    "machines differ": World(blocks=BLOCKS, studies=1000),
    "machines differ, 2 and 8": World(machines=(2, 8)),
    "machines of the smaller kind differ more": World(machine_sd=(3.0, 1.0)),
    "machines are alike": World(machine_sd=(0.0, 0.0)),
    "machines of a kind are alike, and seeds take them along": World(machine_sd=(0.0, 0.0), seed_sd=1.0),
    "machines differ, the kinds by 2 (power)": World(effect=2.0),
}


@dataclass(frozen=True)
class Study:
    """Outcomes with kind, machine and block of each, all of shape (machines * blocks,)."""

    values: Array
    kind: Any
    machine: Any
    block: Any


def draw(world: World, blocks: int, draws: np.random.Generator) -> Study:
    """Draw one study."""
    count = sum(world.machines)
    kind = np.repeat([0, 1], world.machines)
    own = np.array(world.machine_sd)[kind] * draws.standard_normal(count)
    shared = draws.standard_normal(blocks) + world.seed_sd * draws.standard_normal((2, blocks))
    values = world.effect * kind[:, None] + own[:, None] + shared[kind] + draws.standard_normal((count, blocks))
    machine, block = np.indices(values.shape)
    return Study(values.ravel(), np.repeat(kind, blocks), machine.ravel(), block.ravel())


def of_trials(study: Study) -> float:
    """Return p of the t test that takes every trial for independent evidence."""
    return float(stats.ttest_ind(*(study.values[study.kind == which] for which in (0, 1))).pvalue)


def of_blocks(study: Study) -> float:
    """Return p of the sign-flip test of each block's difference between the kinds' means."""
    first, second = (
        np.array([study.values[(study.kind == which) & (study.block == one)].mean() for one in np.unique(study.block)])
        for which in (0, 1)
    )
    return float(exact_p((second - first)[None])[0])


def of_plain_model(study: Study) -> float:
    """Return Wald's p of a mixed model with a random intercept for each machine."""
    fixed = np.column_stack([study.kind, study.block[:, None] == np.unique(study.block)]).astype(np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a variance of 0 lies on the edge
        warnings.simplefilter("ignore", UserWarning)
        return float(MixedLM(study.values, fixed, groups=study.machine).fit(reml=True, method=["powell"]).pvalues[0])


def of_model(study: Study) -> float:
    """Return p of the analysis; 1 where it has none."""
    found = kind_effect(study.values, study.kind, study.machine, study.block)
    return found.p if found else 1.0


TESTS: dict[str, Callable[[Study], float]] = {
    "t test of trials": of_trials,
    "sign-flip over blocks": of_blocks,
    "plain mixed model, Wald z": of_plain_model,
    "mixed model in use": of_model,
}


def rejections(
    world: World, blocks: int, seed: int, studies: int, tests: Iterable[Callable[[Study], float]] = TESTS.values()
) -> list[Rate]:
    """Return how often each test claims an effect of the kind, on the same studies."""
    draws, count, chosen = np.random.default_rng([seed, blocks]), min(studies, world.studies), tuple(tests)
    claims = np.zeros(len(chosen), dtype=int)
    for _ in range(count):
        study = draw(world, blocks, draws)
        claims += np.array([test(study) for test in chosen]) < LEVEL
    return [Rate(int(claim), count) for claim in claims]
