from __future__ import annotations

import pytest

from ablate.design.cross import cells
from ablate.design.slope_checker import slope_checker


def checkers(grid, **factors):
    return {name: slope_checker(name, factors, grid) for name in grid.arms}


def test_arms_that_run_the_same_code_leave_it_to_the_one_that_they_are_held_against(load):
    grid = load(
        """\
        arms:
          threads: {threads: 2}
          plain: {}
          again: {repeat: plain}
          nudged: {repeat: plain, perturb: one-ulp}
          low: {precision: bfloat16}
        contrasts: [{arms: [plain, threads]}, {arms: [plain, low]}]
        """
    )
    assert checkers(grid) == dict.fromkeys(grid.arms, "plain")


def test_where_none_is_its_own_reference_it_is_the_first_of_the_file(load):
    grid = load(
        """\
        arms: {plain: {}, one: {settings: {x: 1}}, two: {threads: 2, settings: {x: 1}}}
        contrasts: [{arms: [plain, one]}, {arms: [plain, two]}]
        """
    )
    assert checkers(grid) == {"plain": "plain", "one": "one", "two": "one"}


@pytest.mark.parametrize(
    "other",
    [
        "{settings: {x: 1}}",
        "{env: {ATEN_CPU_CAPABILITY: default}}",  # kernels of the reference too
        "{env: {FAULT: one}}",  # the code may read it
        "{deterministic: true}",
    ],
)
def test_what_may_compute_another_function_has_its_own(load, other):
    grid = load(f"arms: {{plain: {{}}, other: {other}}}\n")
    assert checkers(grid) == {"plain": "plain", "other": "other"}


def test_settings_are_equal_wherever_they_are_written(load):
    grid = load("settings: {x: 1, y: 2}\narms: {a: {}, b: {threads: 2, settings: {x: 1}}, c: {settings: {x: 3}}}\n")
    assert checkers(grid) == {"a": "a", "b": "a", "c": "c"}


def test_an_arm_that_is_not_trained_under_a_level_checks_nothing_there(load):
    grid = load(
        """\
        factors: {size: [1, 2], exclude: [{arm: plain, size: 2}]}
        arms: {plain: {}, threads: {threads: 2}, more: {threads: 3}}
        contrasts: [{arms: [plain, threads]}, {arms: [plain, more]}]
        """
    )
    assert checkers(grid, size=1)["threads"] == "plain"
    assert {arm for arm, factors in cells(grid) if factors == {"size": 2}} == {"threads", "more"}
    assert slope_checker("threads", {"size": 2}, grid) == slope_checker("more", {"size": 2}, grid) == "threads"
