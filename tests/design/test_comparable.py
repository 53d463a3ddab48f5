"""Which cells a contrast pairs when not every arm meets every combination, and contrasts that pair none."""

from __future__ import annotations

import pytest

from ablate.design.comparable import compared_cells
from ablate.design.matching import match
from ablate.design.plan import plan
from ablate.design.spec import Contrast

TWO = "arms: {a: {}, b: {threads: 2}}\n"
OPTIMISERS = "factors: {union: [{opt: [sgd], momentum: [0.5, 0.9]}, {opt: [adam], beta: [0.9, 0.99]}]}\n"
FRAMES = "factors: {lr: [1, 2], zip: {width: [16, 24, 32], height: [12, 18, 12]}}\n"


def pairs(grid, position=0):
    return [(arm, one, other) for (arm, one), (_, other) in compared_cells(grid.contrasts[position], grid).pairs]


def test_arms_pair_where_both_are_trained(load):
    grid = load(f"factors: {{lr: [1, 2], exclude: [{{arm: b, lr: 2}}]}}\n{TWO}")
    assert pairs(grid) == [("a", {"lr": 1}, {"lr": 1})]
    assert plan(grid, cores=2).contrasts[0].cells == 1


def test_arms_pair_in_every_member_of_a_union(load):
    assert len(pairs(load(OPTIMISERS + TWO))) == 4


def test_a_factor_that_one_side_lacks_is_pinned(load):
    grid = load(
        f"{OPTIMISERS}contrasts: [{{factor: opt, levels: [sgd, adam], where: {{momentum: 0.9, beta: 0.99}}}}]\n"
    )
    assert pairs(grid) == [("default", {"opt": "sgd", "momentum": 0.9}, {"opt": "adam", "beta": 0.99})]


def test_where_takes_no_pair_that_has_nothing_of_it(load):
    grid = load(f"{OPTIMISERS}{TWO}contrasts: [{{arms: [a, b], where: {{momentum: 0.9}}}}]\n")
    assert pairs(grid) == [("a", {"opt": "sgd", "momentum": 0.9}, {"opt": "sgd", "momentum": 0.9})]


def test_what_is_zipped_changes_along(load):
    grid = load(f"{FRAMES}contrasts: [{{factor: width, levels: [16, 24]}}]\n")
    assert pairs(grid) == [
        ("default", {"lr": lr, "width": 16, "height": 12}, {"lr": lr, "width": 24, "height": 18}) for lr in (1, 2)
    ]
    assert grid.contrasts[0].label == "width (with height): 24 against 16"


def test_by_default_each_comparison_that_can_be_made_is_made_once(load):
    labels = [contrast.label for contrast in load(FRAMES).contrasts]
    # height 18 against 12 could mean two things, since two widths have height 12
    assert labels == ["lr: 2 against 1", "width (with height): 24 against 16", "width (with height): 32 against 16"]
    assert [contrast.label for contrast in load(OPTIMISERS).contrasts] == [
        "momentum: 0.9 against 0.5",
        "beta: 0.99 against 0.9",
    ]
    assert len(load("factors: {zip: {x: [1, 2], y: [3, 4]}}\n").contrasts) == 1


def test_arms_without_a_common_cell_have_no_default(complaints):
    text = "factors: {tile: {levels: [8, 16], when: {arm: b}}}\n"
    assert complaints(text + TWO) == [
        "grid.yaml:7: arms.b: no cell in common with a, so by default it is compared with nothing\n"
        "    leave them one in `factors`, or write `contrasts`"
    ]


NONE = "compares nothing: no two cells differ in this and in nothing else"
PIN = "pin a factor that only one side has, or that differs too, with `where`"


@pytest.mark.parametrize(
    ("contrasts", "message"),
    [
        ("[{factor: opt, levels: [sgd, adam]}]", f"6: contrasts[0]: opt: adam against sgd {NONE}\n    {PIN}"),
        (
            "[{factor: opt, levels: [sgd, adam], where: {momentum: 0.9}}]",
            f"6: contrasts[0]: opt: adam against sgd where momentum=0.9 {NONE}\n    {PIN}",
        ),
        (
            "[{factor: height, levels: [12, 18]}]",
            "6: contrasts[0]: height (with width): 18 against 12 cannot choose between two cells of one side: "
            "arm default, lr=1, width=16, height=12; arm default, lr=1, width=32, height=12\n"
            "    choose one with `where`",
        ),
        (
            "[{factor: width, levels: [16, 24]}, {factor: height, levels: [12, 18], where: {width: 16}}]",
            f"6: contrasts[1]: height (with width): 18 against 12 where width=16 {NONE}\n    {PIN}",
        ),
    ],
)
def test_contrasts_that_cannot_be_made(complaints, contrasts, message):
    factors = OPTIMISERS if "opt" in contrasts else FRAMES
    assert complaints(f"contrasts: {contrasts}\n{factors}") == [f"grid.yaml:{message}"]


def test_the_same_comparison_by_either_of_two_zipped_factors(complaints):
    assert complaints(
        "factors: {zip: {x: [1, 2], y: [3, 4]}}\n"
        "contrasts:\n- {factor: x, levels: [1, 2]}\n- {factor: y, levels: [4, 3]}\n"
    ) == [
        "grid.yaml:9: contrasts[1]: the same comparison as contrasts[0] in line 8; the family would count it twice\n"
        "    remove one of them"
    ]


def test_partners_share_their_group_and_none_is_lost():
    cells = [(f"{arm}{block}", arm, {"f": 1}, block) for arm in "ab" for block in (0, 1)] + [("a2", "a", {"f": 1}, 2)]
    found = match(Contrast(arms=("a", "b")), cells)
    assert found.pairs == [("a0", "b0"), ("a1", "b1")]
    assert found.alone == [("a2", False)]
    assert found.ambiguous is None
