from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ablate.design.cross import cells, trials
from ablate.design.grid import Arm, GridSpec, Numerics, Outcome

names = st.from_regex(r"\A[a-z][a-z0-9_]{0,3}\Z")
levels = st.lists(st.integers(), min_size=1, max_size=3, unique=True) | st.lists(
    names, min_size=1, max_size=3, unique=True
)


@st.composite
def grids(draw):
    blocks = tuple(draw(st.lists(st.integers(0, 99), min_size=1, max_size=4, unique=True)))
    arms = {}
    for threads, name in enumerate(draw(st.lists(names, min_size=1, max_size=4, unique=True)), start=1):
        count = draw(st.integers(1, len(blocks)))
        repeat = None if count == len(blocks) else "x"
        arms[name] = Arm(
            numerics=Numerics(threads=threads), settings={}, resources={}, blocks=blocks[:count], repeat=repeat
        )
    factors = draw(st.dictionaries(names, levels.map(tuple), max_size=3))
    return spec(factors=factors, arms=arms, blocks=blocks)


def spec(**changes):
    blocks = changes.get("blocks", (0, 1))
    arm = Arm(numerics=Numerics(), settings={}, resources={"CPU": 1.0}, blocks=blocks)
    given = {
        "study": "s",
        "question": "q",
        "trainable": "m:T",
        "settings": {},
        "factors": {},
        "arms": {"a": arm},
        "blocks": blocks,
        "batches": 10,
        "outcome": Outcome(),
        "contrasts": (),
    }
    return GridSpec(**{**given, **changes})


def brute_force(grid):
    """Every trial by loops over everything: the definition of a crossed design."""
    found = []
    for block in grid.blocks:
        for arm, chosen in grid.arms.items():
            combinations = [{}]
            for factor, its_levels in grid.factors.items():
                combinations = [{**combination, factor: level} for combination in combinations for level in its_levels]
            found += [(block, arm, tuple(c.items())) for c in combinations if block in chosen.blocks]
    return Counter(found)


@settings(max_examples=60, deadline=None)
@given(grids())
def test_crossing_is_complete_and_each_trial_is_there_once(grid):
    made = trials(grid)
    assert Counter((t.block, t.arm, tuple(t.factors.items())) for t in made) == brute_force(grid)
    assert len({t.trial_id for t in made}) == len(made)
    assert [t.block for t in made] == sorted(t.block for t in made)


def test_a_trial_holds_the_settings_of_grid_arm_and_factors():
    arm = Arm(numerics=Numerics(threads=2), settings={"b": 2, "c": 2}, resources={"CPU": 2.0}, blocks=(5,))
    grid = spec(settings={"a": 1, "b": 1, "d": 1}, factors={"d": (3,)}, arms={"x": arm}, blocks=(5,))
    (trial,) = trials(grid)
    assert trial.settings == {"a": 1, "b": 2, "c": 2, "d": 3}
    assert (trial.arm, trial.block, trial.batches, trial.factors) == ("x", 5, 10, {"d": 3})
    assert trial.numerics == arm.numerics
    assert trial.resources == {"CPU": 2.0}
    assert trial.guard == grid.guard


def two_arms(blocks, **changes):
    def arm(threads):
        return Arm(numerics=Numerics(threads=threads), settings={}, resources={}, blocks=blocks)

    return spec(arms={"a": arm(1), "b": arm(2)}, blocks=blocks, **changes)


def test_the_order_is_seeded_by_study_and_block():
    grid = two_arms(tuple(range(8)), factors={"f": (1, 2, 3)})
    assert trials(grid) == trials(grid)
    other = grid.model_copy(update={"study": "other"})
    assert [(t.arm, t.block, t.factors) for t in trials(other)] != [(t.arm, t.block, t.factors) for t in trials(grid)]
    orders = {tuple((t.arm, t.factors["f"]) for t in trials(grid) if t.block == block) for block in range(8)}
    assert len(orders) == 8


def test_the_order_of_a_block_does_not_depend_on_the_other_blocks():
    few, many = trials(two_arms((3,))), trials(two_arms((1, 3, 7)))
    assert list(few) == [trial for trial in many if trial.block == 3]


def test_no_arm_comes_first_more_often_than_chance():
    # 400 fair coins: 200 +- 10; the bounds are 5 standard deviations, missed with p < 1e-6 were the seed redrawn.
    first = [t.arm for t in trials(two_arms(tuple(range(400))))[::2]]
    assert 150 < first.count("a") < 250


def test_ordering_leaves_the_global_generator_alone():
    before = np.random.get_state()[1].tolist()
    trials(two_arms((0, 1)))
    assert np.random.get_state()[1].tolist() == before


def test_cells_are_in_file_order():
    grid = two_arms((0,), factors={"f": (2, 1), "g": ("y", "x")})
    assert cells(grid)[:3] == [("a", {"f": 2, "g": "y"}), ("a", {"f": 2, "g": "x"}), ("a", {"f": 1, "g": "y"})]


def ids(grid):
    return {(t.arm, t.block, tuple(t.factors.items())): t.trial_id for t in trials(grid)}


def test_adding_a_block_an_arm_or_a_level_leaves_the_other_ids_unchanged():
    grid = two_arms((0, 1), factors={"f": (1, 2)}, settings={"x": 0.5})
    extra = Arm(numerics=Numerics(threads=9), settings={}, resources={}, blocks=(0, 1))
    for larger in (
        two_arms((0, 1, 2), factors={"f": (1, 2)}, settings={"x": 0.5}),
        two_arms((0, 1), factors={"f": (0, 1, 2)}, settings={"x": 0.5}),
        grid.model_copy(update={"arms": {"new": extra, **grid.arms}}),
    ):
        assert ids(grid).items() < ids(larger).items()


PROGRAM = """
from ablate.design.cross import trials
from ablate.design.grid import load_grid
print([trial.trial_id for trial in trials(load_grid("grid.yaml"))])
"""


def test_ids_and_order_are_equal_in_every_process(load, tmp_path):
    text = "settings: {b: 1, a: [x, {z: 1, y: 2}]}\nfactors: {f: [u, v]}\narms: {p: {env: {B: x, A: y}}, q: {}}\n"
    expected = str([trial.trial_id for trial in trials(load(text))])
    for seed in ("0", "1", "4711"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", PROGRAM]
        run = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert run.stdout.strip() == expected
