"""From a study to its trials: arms under the combinations of levels, over the blocks, in launch order."""

from __future__ import annotations

from itertools import product

from ablate.design.seeds import stream_key
from ablate.design.spec import GridSpec
from ablate.design.trial_spec import Scalar, TrialSpec


def cells(grid: GridSpec) -> list[tuple[str, dict[str, Scalar]]]:
    """Return every arm with every combination of levels it is trained under, in file order."""
    if grid.cells is not None:
        return [(arm, cell.factors) for arm in grid.arms for cell in grid.cells if arm in cell.arms]
    combinations = [dict(zip(grid.factors, levels, strict=True)) for levels in product(*grid.factors.values())]
    return [(arm, factors) for arm in grid.arms for factors in combinations]


def trials(grid: GridSpec) -> tuple[TrialSpec, ...]:
    """Return the trials in launch order.

    Blocks ascend. Within a block the order is a random permutation, seeded by study and block, so that arms
    interleave and a machine that drifts (temperature, load) does not favour whichever arm the file names first.

    The order is no part of a trial's identity: adding an arm reorders its block and changes no id.
    """
    # numpy takes a tenth of a second to import, and `ablate --help` needs none of it.
    from numpy.random import Generator, Philox

    ordered = []
    for block in sorted(grid.blocks):
        here = [(arm, factors) for arm, factors in cells(grid) if block in grid.arms[arm].blocks]
        generator = Generator(Philox(key=stream_key(grid.study, block, "order-of-trials")))
        ordered += [_trial(grid, *here[int(position)], block) for position in generator.permutation(len(here))]
    return tuple(ordered)


def _trial(grid: GridSpec, arm: str, factors: dict[str, Scalar], block: int) -> TrialSpec:
    chosen = grid.arms[arm]
    return TrialSpec(
        study=grid.study,
        trainable=grid.trainable,
        settings={**grid.settings, **chosen.settings, **factors},
        arm=arm,
        numerics=chosen.numerics,
        factors=factors,
        block=block,
        batches=grid.batches,
        guard=grid.guard,
        audit=grid.audit,
        checkpoint=grid.checkpoint,
        artifacts=grid.artifacts,
        sketches=grid.sketches,
        probes=grid.probes,
        stall_minutes=grid.stall_minutes,
        resources=chosen.resources,
    )
