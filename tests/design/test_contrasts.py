# ruff: noqa: E501  (an expected message reads best in one piece)
from __future__ import annotations

import pytest

from ablate.design.grid import Contrast

GRID = """\
factors: {rate: [1, 0.5], input: [copied, reused], flag: [true, false]}
arms: {a: {}, b: {threads: 2}, again: {repeat: a}}
"""


def test_by_default_the_first_arm_is_compared_with_every_other_that_is_no_control(load):
    grid = load(
        "arms: {again: {repeat: a}, a: {}, b: {threads: 2}, c: {threads: 3}, ulp: {repeat: b, perturb: one-ulp}}"
    )
    assert grid.contrasts == (Contrast(arms=("a", "b")), Contrast(arms=("a", "c")))


def test_with_one_arm_the_first_level_is_compared_with_every_other(load):
    grid = load("factors: {x: [3, 1, 2], y: [u], z: [true, false]}\narms: {a: {}, again: {repeat: a}}\n")
    assert grid.contrasts == (
        Contrast(factor="x", levels=(3, 1)),
        Contrast(factor="x", levels=(3, 2)),
        Contrast(factor="z", levels=(True, False)),
    )


def test_none_at_all_can_be_asked_for(load):
    assert load(GRID + "contrasts: []\n").contrasts == ()


def test_levels_are_those_of_the_factor(load):
    grid = load(GRID + "contrasts:\n- {factor: rate, levels: [1, 0.5], where: {flag: true, input: reused}}\n")
    (contrast,) = grid.contrasts
    assert contrast == Contrast(factor="rate", levels=(1.0, 0.5), where={"flag": True, "input": "reused"})
    assert isinstance(contrast.levels[0], float)


@pytest.mark.parametrize(
    ("contrast", "label"),
    [
        (Contrast(arms=("a", "b")), "b against a"),
        (Contrast(factor="flag", levels=(False, True)), "flag: true against false"),
        (Contrast(arms=("a", "b"), where={"x": 1.0, "flag": True}), "b against a where x=1.0, flag=true"),
    ],
)
def test_label(contrast, label):
    assert contrast.label == label


FORM = "{arms: [reference, other]} or {factor: NAME, levels: [reference, other]}"
PAIR = "two arm names: [reference, other]"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", f"contrasts[0]: nothing is compared\n    allowed: {FORM}"),
        ("null", f"contrasts[0]: found nothing (null)\n    allowed: {FORM}"),
        ("[a, b]", f"contrasts[0]: found a list of 2\n    allowed: {FORM}"),
        ("{arms: [a, b], factor: rate, levels: [1, 0.5]}", f"contrasts[0]: arms and factor and levels given\n    allowed: {FORM}"),
        ("{factor: rate}", f"contrasts[0]: only factor given\n    allowed: {FORM}"),
        ("{levels: [1, 0.5]}", f"contrasts[0]: only levels given\n    allowed: {FORM}"),
        ("{arm: [a, b]}", "contrasts[0].arm: unknown key \"arm\"\n    did you mean 'arms'?\n    allowed: arms, factor, levels, where"),
        ("{arms: [a]}", f"contrasts[0].arms: found a list of 1\n    allowed: {PAIR}"),
        ("{arms: [a, b, a]}", f"contrasts[0].arms: found a list of 3\n    allowed: {PAIR}"),
        ("{arms: [a, 1]}", "contrasts[0].arms[1]: found 1 (a whole number)\n    allowed: an arm's name"),
        ("{arms: [a, a]}", "contrasts[0].arms: compares a with itself\n    allowed: two different arms"),
        ("{arms: [a, agin]}", "contrasts[0].arms[1]: no arm is called \"agin\"\n    did you mean 'again'?\n    allowed: a, b, again"),
        ("{arms: [a, b], where: {rat: 1}}", "contrasts[0].where.rat: no factor is called \"rat\"\n    did you mean 'rate'?\n    allowed: rate, input, flag"),
        ("{arms: [a, b], where: {rate: 2}}", "contrasts[0].where.rate: found 2 (a whole number), no level of rate\n    allowed: 1.0, 0.5"),
        ("{arms: [a, b], where: {flag: 1}}", "contrasts[0].where.flag: found 1 (a whole number), no level of flag\n    allowed: true, false"),
        ("{arms: [a, b], where: 1}", "contrasts[0].where: found 1 (a whole number)\n    allowed: a mapping of factors to one level each"),
        ("{factor: rte, levels: [1, 2]}", "contrasts[0].factor: no factor is called \"rte\"\n    did you mean 'rate'?\n    allowed: rate, input, flag"),
        ("{factor: input, levels: [copied, resued]}", "contrasts[0].levels[1]: found \"resued\" (text), no level of input\n    did you mean 'reused'?\n    allowed: copied, reused"),
        ("{factor: rate, levels: [1, 1.0]}", "contrasts[0].levels: compares 1.0 with itself\n    allowed: two different levels"),
        ("{factor: rate, levels: [1]}", "contrasts[0].levels: found a list of 1\n    allowed: two levels: [reference, other]"),
        ("{factor: rate, levels: [1, 0.5], where: {rate: 1}}", "contrasts[0].where.rate: rate is what is compared\n    allowed: other factors"),
    ],
)  # fmt: skip
def test_one_thing_wrong(complaints, text, message):
    assert complaints(f"{GRID}contrasts:\n- {text}\n") == [f"grid.yaml:9: {message}"]


def test_not_a_list(complaints):
    assert complaints("contrasts: {arms: [a, b]}\n") == [
        "grid.yaml:6: contrasts: found a mapping\n    allowed: a list of contrasts"
    ]


def test_a_grid_without_factors_says_so(complaints):
    assert complaints("contrasts: [{factor: x, levels: [1, 2]}]\n") == [
        'grid.yaml:6: contrasts[0].factor: no factor is called "x"\n    allowed: none: the grid has no factors'
    ]


@pytest.mark.parametrize("second", ["{arms: [a, b]}", "{arms: [b, a]}"])
def test_a_comparison_counts_once(complaints, second):
    assert complaints(f"{GRID}contrasts:\n- {{arms: [a, b]}}\n- {second}\n") == [
        "grid.yaml:10: contrasts[1]: the same comparison as contrasts[0] in line 9; the family would count it twice\n"
        "    remove one of them"
    ]


def test_restrictions_to_different_levels_are_different_comparisons(load):
    grid = load(
        GRID + "contrasts: [{arms: [a, b], where: {rate: 1}}, {arms: [a, b], where: {rate: 0.5}}, {arms: [a, b]}]"
    )
    assert len(grid.contrasts) == 3
