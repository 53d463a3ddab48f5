"""A study that nobody could plan or place is refused while it is read, before its trials are listed."""

from __future__ import annotations

import time

import pytest

from ablate.design.cross import trials
from ablate.design.factor_tree import Factor, SubGrid, Union, Zip, combinations, combinations_at_most
from ablate.design.plan import plan

LEVELS = ", ".join(map(str, range(100)))
FACTORS = "".join(f"  f{n}: [{LEVELS}]\n" for n in range(4))


def test_a_hundred_million_combinations_are_refused_at_once(complaints):
    began = time.process_time()
    said = complaints(f"factors:\n{FACTORS}arms: {{a: {{}}, b: {{onednn: false}}}}\n")
    assert time.process_time() - began < 2  # a listing would take an hour
    assert said == [
        "grid.yaml:6: factors: 1,200,000,000 trials (100,000,000 combinations of levels x 2 arms x 6 blocks, "
        "exclusions apart)\n    allowed: at most 100,000\n"
        "    split the study, or cross fewer factors: `zip` and `union` say which levels belong together"
    ]


def test_a_tree_of_conditions_is_not_listed_first(complaints):
    text = f"factors:\n{FACTORS}  exclude: [{{f0: 1}}]\narms: {{a: {{}}, b: {{onednn: false}}}}\n"
    assert "1,200,000,000 trials" in complaints(text)[0]


def test_many_blocks_are_named_as_the_cause(complaints):
    minimal = "study: s\nquestion: Q?\ntrainable: pkg.mod:Thing\nblocks: 10000\nbatches: 1\n"
    arms = "".join(f"  a{n}: {{settings: {{k: {n}}}}}\n" for n in range(11))
    said = complaints(f"arms:\n{arms}", minimal)
    assert said[0].startswith("grid.yaml:4: blocks: 110,000 trials (1 combinations of levels x 11 arms x 10,000 blocks")


def factor(name: str, count: int) -> Factor:
    return Factor(name, ("factors", name), tuple(range(count)))


@pytest.mark.parametrize(
    "tree",
    [
        SubGrid(),
        SubGrid((factor("a", 3), factor("b", 4))),
        SubGrid((Zip(("z",), (factor("a", 3), factor("b", 3))), factor("c", 2))),
        SubGrid(
            (Union(("u",), (SubGrid((factor("a", 2), factor("b", 3))), SubGrid((factor("c", 4),)))), factor("d", 2))
        ),
    ],
)
def test_the_bound_is_the_number_where_nothing_is_excluded(tree: SubGrid) -> None:
    assert combinations_at_most(tree) == len(combinations(tree, {"plain"}, set()))


def test_trials_that_were_listed_are_not_listed_again(load, monkeypatch):
    grid = load("arms: {a: {}, b: {onednn: false}}\n")
    specs, whole = trials(grid), plan(grid, cores=2)
    monkeypatch.setattr("ablate.design.plan.trials", lambda grid: pytest.fail("listed twice"))
    assert plan(grid, cores=2, specs=specs) == whole
