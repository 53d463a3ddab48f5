"""The pseudo-replication trap by simulation: 4 machines of one kind and 8 of another, and no effect of the kind.

The number of studies is fixed beforehand: 400 reject a test whose true level is 11 % instead of 5 with power .96.
"""

import pytest

from ablate.design.attainable import LEVEL
from benchmarks.simulated_machines import WORLDS, World, of_blocks, of_model, of_plain_model, of_trials, rejections

pytestmark = pytest.mark.slow
STUDIES, SEED = 400, 8


@pytest.mark.parametrize("blocks", [6, 10])
def test_where_machines_differ_trials_and_blocks_see_a_kind_effect_and_the_mixed_model_does_not(blocks):
    tests = (of_trials, of_blocks, of_model)
    trials, seeds, ours = rejections(WORLDS["machines differ"], blocks, SEED, STUDIES, tests)
    assert trials.share > 4 * LEVEL
    assert seeds.share > 4 * LEVEL
    assert not ours.exceeds(LEVEL)


def test_where_a_seed_takes_all_machines_of_a_kind_along_the_plain_mixed_model_is_far_above_its_level():
    world = WORLDS["machines of a kind are alike, and seeds take them along"]
    plain, ours = rejections(world, 6, SEED, STUDIES, (of_plain_model, of_model))
    assert plain.share > 4 * LEVEL
    assert not ours.exceeds(LEVEL)


@pytest.mark.parametrize(
    "title", ["machines differ, 2 and 8", "machines of the smaller kind differ more", "machines are alike"]
)
def test_the_mixed_model_holds_its_level(title):
    (ours,) = rejections(WORLDS[title], 6, SEED, STUDIES, (of_model,))
    assert not ours.exceeds(LEVEL)


def test_a_planted_kind_effect_is_found():
    """4 standard deviations of the machines: 6 standard errors at 4 and 8 machines."""
    (ours,) = rejections(World(effect=4.0), 6, SEED, 60, (of_model,))
    assert ours.share > 0.95
