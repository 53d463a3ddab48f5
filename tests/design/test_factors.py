# ruff: noqa: E501  (an expected message reads best in one piece)
"""Zips, unions, conditional factors and exclusions, against their definition by brute force."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ablate.design.cross import cells, trials
from ablate.design.extend import differences
from ablate.design.grid import GridSpec, load_grid
from ablate.errors import BadInput


def holds(pattern, arm, levels):
    """The definition of a pattern, with one level or a list of them for each name."""
    return all(
        (arm if name == "arm" else levels.get(name)) in (wanted if isinstance(wanted, list) else [wanted])
        for name, wanted in pattern.items()
    )


def brute_force(written, arm):
    """Every assignment of a level, or of nothing, that agrees with what is written. Returns a list with repeats."""
    options, conditional = [], {}
    for name, value in written.items():
        if name == "zip":
            tables = value if isinstance(value, list) else [value]
            options += [
                [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)] for table in tables
            ]
        elif name == "union":
            options.append([one for member in value for one in brute_force(member, arm)])
        elif name != "exclude":
            levels = value["levels"] if isinstance(value, dict) else value
            options.append([{name: level} for level in levels] + ([{}] if isinstance(value, dict) else []))
            if isinstance(value, dict):
                conditional[name] = value["when"]
    found = []
    for choice in itertools.product(*options):
        levels = dict(itertools.chain.from_iterable(one.items() for one in choice))
        as_conditioned = all((name in levels) == holds(when, arm, levels) for name, when in conditional.items())
        if as_conditioned and not any(holds(pattern, arm, levels) for pattern in written.get("exclude", ())):
            found.append(levels)
    return found


def as_set(combinations):
    return {frozenset(one.items()) for one in combinations}


NAMES = [f"f{n}" for n in range(8)]
few = st.lists(st.integers(0, 3), min_size=1, max_size=3, unique=True)


@st.composite
def sub_grids(draw, names, depth=1):
    """A mapping of factors over some of ``names``, and the names it came to use."""
    written, used = {}, []
    free = list(names)

    def take():
        used.append(free.pop(0))
        return used[-1]

    for _ in range(draw(st.integers(0, 2))):
        if free:
            written[take()] = draw(few)
    if len(free) >= 2 and draw(st.booleans()):
        rows = draw(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=3, unique=True))
        written["zip"] = {take(): [row[n] for row in rows] for n in range(2)}
    if depth and free and draw(st.booleans()):
        members = [draw(sub_grids(tuple(free), depth - 1)) for _ in range(draw(st.integers(1, 3)))]
        written["union"] = [member for member, _ in members]
        inside = [name for _, found in members for name in found]
        used += list(dict.fromkeys(inside))
        free = [name for name in free if name not in inside]
    patterns = st.dictionaries(
        st.sampled_from([*used, "arm"]),
        st.integers(0, 3) | st.lists(st.integers(0, 3), min_size=1, max_size=2),
        min_size=1,
        max_size=2,
    )

    def with_arms(pattern):
        return {
            name: draw(st.sampled_from(["a", "b", ["a", "b"]])) if name == "arm" else value
            for name, value in pattern.items()
        }

    for _ in range(draw(st.integers(0, 2))):
        if free:
            when = with_arms(draw(patterns))
            written[take()] = {"levels": draw(few), "when": when}
    if draw(st.booleans()):
        written["exclude"] = [with_arms(draw(patterns)) for _ in range(draw(st.integers(1, 2)))]
    return written, used


def outcome(path):
    try:
        return load_grid(path), ()
    except BadInput as error:
        return None, error.problems


HEAD = {"study": "s", "question": "q", "trainable": "m:T", "blocks": 2, "batches": 10, "contrasts": []}


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(sub_grids(tuple(NAMES)))
def test_the_cells_are_those_of_the_definition(tmp_path, drawn):
    written, _ = drawn
    path = tmp_path / "grid.yaml"
    path.write_text(
        json.dumps({**HEAD, "factors": written, "arms": {"a": {}, "b": {"threads": 2}, "again": {"repeat": "b"}}})
    )
    expected = {arm: as_set(brute_force(written, arm)) for arm in ("a", "b")}
    expected["again"] = expected["b"]
    grid, problems = outcome(path)
    if grid is None:  # a condition that nothing meets, an unknown level, an arm that is left without a cell
        words = ("no cell has all of this", "no level of", "is excluded")
        assert all(any(word in problem.found for word in words) for problem in problems)
        assert set() in expected.values() or not any("is excluded" in problem.found for problem in problems)
        return
    found = {arm: [levels for owner, levels in cells(grid) if owner == arm] for arm in expected}
    assert {arm: as_set(one) for arm, one in found.items()} == expected
    assert all(len(one) == len(as_set(one)) for one in found.values())
    planned = trials(grid)
    assert len({trial.trial_id for trial in planned}) == len(planned) == 2 * sum(map(len, found.values()))
    assert all({name: trial.settings[name] for name in trial.factors} == trial.settings for trial in planned)
    assert GridSpec.model_validate_json(grid.model_dump_json()) == grid
    assert differences(grid, grid) == []


EXAMPLE = """\
factors:
  lr: [0.1, 0.01]
  zip: {width: [16, 24, 24], height: [12, 12, 18]}
  union:
    - {optimiser: [sgd], nesterov: [true, false]}
    - {optimiser: [adam], beta: [0.9, 0.99]}
  momentum: {levels: [0.5, 0.9], when: {nesterov: true}}
  exclude:
    - {width: 24, lr: 0.1}
    - {arm: b, optimiser: [adam]}
arms: {a: {}, b: {threads: 2}, again: {repeat: b, blocks: 1}}
contrasts: []
"""


def test_an_example_by_hand(load):
    grid = load(EXAMPLE)
    optimisers = [
        {"optimiser": "sgd", "nesterov": True, "momentum": 0.5},
        {"optimiser": "sgd", "nesterov": True, "momentum": 0.9},
        {"optimiser": "sgd", "nesterov": False},
        {"optimiser": "adam", "beta": 0.9},
        {"optimiser": "adam", "beta": 0.99},
    ]
    frames = [(0.1, 16, 12), (0.01, 16, 12), (0.01, 24, 12), (0.01, 24, 18)]
    expected = [{"lr": lr, "width": w, "height": h, **one} for lr, w, h in frames for one in optimisers]
    by_arm = {arm: [levels for owner, levels in cells(grid) if owner == arm] for arm in grid.arms}
    assert by_arm["a"] == expected
    assert by_arm["b"] == [one for one in expected if one["optimiser"] == "sgd"]
    assert by_arm["again"] == by_arm["b"]
    assert list(grid.factors) == ["lr", "width", "height", "optimiser", "nesterov", "beta", "momentum"]
    assert grid.factors["width"] == (16, 24)


def test_what_does_not_apply_is_no_setting(load):
    trial = next(one for one in trials(load(EXAMPLE)) if one.factors["optimiser"] == "adam")
    assert set(trial.settings) == {"lr", "width", "height", "optimiser", "beta"}
    assert set(trial.factors) == set(trial.settings)


def test_a_setting_of_the_grid_holds_where_its_factor_does_not_exist(load):
    text = "settings: {momentum: 0.0}\nfactors: {opt: [sgd, adam], momentum: {levels: [0.9], when: {opt: sgd}}}\n"
    assert {(t.factors["opt"], t.settings["momentum"]) for t in trials(load(text))} == {("sgd", 0.9), ("adam", 0.0)}


def test_a_factor_of_one_arm_and_its_control(load):
    grid = load(
        "factors: {tile: {levels: [8, 16], when: {arm: b}}}\narms: {a: {}, b: {threads: 2}, ulp: {repeat: b, perturb: one-ulp}}\n"
        "contrasts: [{factor: tile, levels: [8, 16]}, {arms: [b, ulp]}]\n"
    )
    assert cells(grid) == [
        ("a", {}),
        ("b", {"tile": 8}),
        ("b", {"tile": 16}),
        ("ulp", {"tile": 8}),
        ("ulp", {"tile": 16}),
    ]


def test_whole_and_broken_numbers_of_two_members_become_one_kind(load):
    grid = load("factors: {union: [{x: [1], y: [a]}, {x: [0.5, 1]}]}\n")
    assert grid.factors["x"] == (1.0, 0.5)
    assert all(type(one["x"]) is float for _, one in cells(grid))


def test_members_that_overlap_are_trained_once(load):
    grid = load("factors: {union: [{x: [1, 2]}, {x: [2, 3]}, {}]}\n")
    assert [one for _, one in cells(grid)] == [{"x": 1}, {"x": 2}, {"x": 3}, {}]


def test_the_example_of_the_readme(load):
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    (factors,) = re.findall(r"```yaml\n(factors:.*?)```", readme, re.DOTALL)
    where = "{factor: optimiser, levels: [sgd, adam], where: {nesterov: false, beta: 0.9}}"
    grid = load(f"{factors}arms: {{float32: {{}}, bfloat16: {{precision: bfloat16}}}}\ncontrasts: [{where}]\n")
    count = Counter((arm, levels["optimiser"]) for arm, levels in cells(grid))
    # five frames of six are left, under three settings of sgd and two of adam
    assert count == {("float32", "sgd"): 15, ("float32", "adam"): 10, ("bfloat16", "sgd"): 15}


def ids(grid):
    return {(t.arm, t.block, tuple(t.factors.items())): t.trial_id for t in trials(grid)}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("[0.1, 0.01]", "[0.1, 0.5, 0.01]"),
        ("{optimiser: [adam], beta: [0.9, 0.99]}", "{optimiser: [adam], beta: [0.9, 0.99]}\n    - {optimiser: [lion]}"),
        ("{width: [16, 24, 24], height: [12, 12, 18]}", "{width: [32, 16, 24, 24], height: [18, 12, 12, 18]}"),
        ("levels: [0.5, 0.9]", "levels: [0.5, 0.7, 0.9]"),
        ("    - {arm: b, optimiser: [adam]}\n", ""),
        ("  exclude", "  eps: {levels: [1.0e-3], when: {optimiser: lion}}\n  exclude"),
    ],
)
def test_what_is_added_changes_no_other_id(load, before, after):
    if "lion" in after and "eps" in after:
        larger = EXAMPLE.replace("  exclude", f"{after.removesuffix('exclude')}exclude".strip("\n"), 1)
        larger = larger.replace("{optimiser: [adam], beta", "{optimiser: [lion]}\n    - {optimiser: [adam], beta")
    else:
        larger = EXAMPLE.replace(before, after, 1)
    old, new = load(EXAMPLE), load(larger)
    assert ids(old).items() < ids(new).items()
    assert differences(old, new) == []


def test_leaving_out_what_the_store_has_planned_is_a_difference(load):
    old = load(EXAMPLE)
    new = load(EXAMPLE.replace("  exclude:\n", "  exclude:\n    - {nesterov: false}\n"))
    assert differences(old, new) == [
        "factors: leave out arm a, lr=0.1, width=16, height=12, optimiser=sgd, nesterov=false and 11 more, which the "
        "store has planned"
    ]
    assert differences(new, old) == []


def test_a_grid_of_plain_factors_holds_no_list_of_cells(load):
    assert load("factors: {x: [1, 2], y: [a, b]}\n").cells is None


LIST = "a list of at least one level"
PATTERN = "a mapping of factors, or `arm`, to a level or a list of them"
ZIP = "factors that vary together, with lists of one length: {width: [16, 24], height: [12, 18]}; or a list of such mappings"
NAME = "for a factor, a name of lower-case letters, digits and _ that begins with a letter"


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("{arm: [1]}", ['arm: the name "arm" cannot be used\n    allowed: any other: it has a meaning of its own here']),
        ("{f: {level: [1], when: {x: 1}}, x: [1]}", [
            "f.level: unknown key \"level\"\n    did you mean 'levels'?\n    allowed: levels, when",
            f"f.levels: missing\n    allowed: {LIST}"]),
        ("{f: {levels: [1]}}", ["f.when: missing\n    allowed: a mapping of other factors, or `arm`, to the levels with which this factor exists"]),
        ("{f: {levels: 1, when: {x: 1}}, x: [1]}", [f"f.levels: found 1 (a whole number)\n    allowed: {LIST}"]),
        ("{f: {levels: [1], when: {}}}", ["f.when: found an empty mapping\n    allowed: a mapping of other factors, or `arm`, to the levels with which this factor exists"]),
        ("{f: {levels: [1], when: {x: 2}}, x: [1]}", ["f.when.x: found 2 (a whole number), no level of x\n    allowed: 1"]),
        ("{f: {levels: [1], when: {y: 2}}, xy: [1]}", ["f.when.y: no factor is called \"y\" where this stands\n    did you mean 'xy'?\n    allowed: arm, xy"]),
        ("{f: {levels: [1], when: {f: 1}}}", ["f.when.f: no factor is called \"f\" where this stands\n    allowed: arm"]),
        ("{f: {levels: [1], when: {arm: defalt}}}", ["f.when.arm: found \"defalt\" (text), no level of arm\n    did you mean 'default'?\n    allowed: default"]),
        ("{f: {levels: [1], when: {x: []}}, x: [1]}", ["f.when.x: an empty list\n    allowed: a level, or a list of levels"]),
        ("{f: {levels: [1], when: {g: 1}}, g: {levels: [1], when: {f: 1}}}", [
            "f.when: f would exist by g, which would exist by f\n    write them in a `union` instead",
            "g.when: g would exist by f, which would exist by g\n    write them in a `union` instead"]),
        ("{f: {levels: [1], when: {x: 1, y: 2}}, zip: {x: [1, 2], y: [1, 2]}}", ["f.when: the factor exists nowhere: no cell has all of this\n    remove or mend it"]),
        ("{zip: [1]}", [f"zip[0]: found 1 (a whole number)\n    allowed: {ZIP}"]),
        ("{zip: []}", [f"zip: found an empty list\n    allowed: {ZIP}"]),
        ("{zip: {a: [1], b: 2}}", [f"zip.b: found 2 (a whole number)\n    allowed: {LIST}, as long as the others of the zip"]),
        ("{zip: {a: [1, 2], b: [2]}}", [f"zip: lists of different length: a has 2, b has 1\n    allowed: {ZIP}"]),
        ("{zip: {a: [1, 2]}}", ["zip: a zip of one factor\n    allowed: two factors or more\n    write it as a factor by itself"]),
        ("{zip: {a: [1, 2, 1], b: [x, x, x]}}", ["zip: entry 3 of each list repeats entry 1\n    remove one of them from every list"]),
        ("{zip: {A: [1, 2], b: [1, 2], c: [1, 2]}}", [f'zip.A: the name "A" cannot be used\n    allowed: {NAME}']),
        ("{union: {a: [1]}}", ["union: found a mapping\n    allowed: a list of mappings, each written like `factors`"]),
        ("{union: [a]}", ["union[0]: found \"a\" (text)\n    allowed: a mapping, written like `factors`"]),
        ("{union: [{a: [1]}, {a: [x]}]}", ["union[1].a: found \"x\" (text) beside 1 (a whole number) in line 6\n    allowed: levels of one kind"]),
        ("{x: [1], union: [{a: [1], x: [2]}]}", ["union: x stands here and in line 6, and both are crossed\n    write it once; the members of one union may share it"]),
        ("{x: [1], zip: {x: [1, 2], y: [1, 2]}}", ["zip: x stands here and in line 6, and both are crossed\n    write it once; the members of one union may share it"]),
        ("{x: [1], union: [{a: [1], b: {levels: [1], when: {x: 1}}}]}", ["union[0].b.when.x: no factor is called \"x\" where this stands\n    allowed: arm, a"]),
        ("{x: [1], exclude: {x: 1}}", ["exclude: found a mapping\n    allowed: a list of mappings such as {lr: 0.1, arm: fast}; a cell that has all of one is left out"]),
        ("{x: [1], exclude: [x]}", [f"exclude[0]: found \"x\" (text)\n    allowed: {PATTERN}"]),
        ("{x: [1], exclude: [{y: 1}]}", ["exclude[0].y: no factor is called \"y\" where this stands\n    allowed: arm, x"]),
        ("{x: [1], exclude: [{x: [1, 3]}]}", ["exclude[0].x[1]: found 3 (a whole number), no level of x\n    allowed: 1"]),
        ("{zip: {x: [1, 2], y: [1, 2]}, exclude: [{x: 1, y: 2}]}", ["exclude[0]: excludes nothing: no cell has all of this\n    remove or mend it"]),
        ("{x: [1, 2], exclude: [{x: [1, 2]}]}", [": every cell of the arm default is excluded"]),
        ("{f: {levels: [1e-3], when: {x: 1}}, x: [1]}", ["f.levels[0]: 1e-3 is text in YAML 1.1, not a number\n    write 1.0e-3, or \"1e-3\" for the text"]),
    ],
)  # fmt: skip
def test_what_is_wrong(complaints, text, messages):
    prefix = "grid.yaml:6: factors"
    expected = [f"{prefix}{'' if one.startswith(':') else '.'}{one}" for one in messages]
    assert complaints(f"factors: {text}\n") == expected


def test_every_problem_at_once(complaints):
    found = complaints(
        """\
        factors:
          lr: [0.1, x]
          zip: {width: [1, 2], height: [1]}
          union:
            - {opt: [sgd], lrr: {levels: [1], when: {op: sgd}}}
            - 3
          exclude:
            - {wdth: 1}
            - {arm: slow}
        """
    )
    assert [line.splitlines()[0].removeprefix("grid.yaml:") for line in found] == [
        '7: factors.lr[1]: found "x" (text) beside 0.1 (a number)',
        "8: factors.zip: lists of different length: width has 2, height has 1",
        '10: factors.union[0].lrr.when.op: no factor is called "op" where this stands',
        "11: factors.union[1]: found 3 (a whole number)",
        '13: factors.exclude[0].wdth: no factor is called "wdth" where this stands',
        '14: factors.exclude[1].arm: found "slow" (text), no level of arm',
    ]
