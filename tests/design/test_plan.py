from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from ablate.design.cross import trials
from ablate.design.plan import ContrastPlan, plan
from ablate.design.plan_table import render
from ablate.design.yaml_source import read_yaml
from ablate.errors import BadInput

TEXT = """\
factors: {f: [1, 2]}
arms:
  a: {}
  b: {threads: 2, resources: {node: 0.5}}
  again: {repeat: b, blocks: 2}
  ulp: {repeat: b, perturb: one-ulp}
contrasts: [{arms: [a, b]}, {factor: f, levels: [1, 2]}, {arms: [b, again]}]
margin: 2%
"""


def test_counts(load):
    grid = load(TEXT)
    made = plan(grid, cores=2)
    assert [(arm.arm, arm.trials, arm.batches, arm.control, arm.repeat, arm.perturb) for arm in made.arms] == [
        ("a", 12, 1200, False, None, None),
        ("b", 12, 1200, False, None, None),
        ("again", 4, 400, True, "b", None),
        ("ulp", 12, 1200, True, "b", "one-ulp"),
    ]
    assert [arm.resources for arm in made.arms][:2] == [{"CPU": 1.0}, {"CPU": 2.0, "node": 0.5}]
    assert made.batches == 4000
    assert [trial.trial_id for trial in made.trials] == [trial.trial_id for trial in trials(grid)]
    assert made.margin == "2%"


def test_what_each_contrast_can_show(load):
    assert plan(load(TEXT), cores=2).contrasts == (
        ContrastPlan(
            label="b against a", pairs=6, cells=2, in_family=True, smallest_p=2 / 64, smallest_adjusted_p=4 / 64
        ),
        ContrastPlan(
            label="f: 2 against 1", pairs=6, cells=2, in_family=True, smallest_p=2 / 64, smallest_adjusted_p=4 / 64
        ),
        ContrastPlan(
            label="again against b", pairs=2, cells=2, in_family=False, smallest_p=0.5, smallest_adjusted_p=0.5
        ),
    )


def minimal_with(blocks):
    return f"study: s\nquestion: q\ntrainable: m:T\nblocks: {blocks}\nbatches: 10\n"


@pytest.mark.parametrize(
    ("blocks", "arms", "warning"),
    [
        (6, 2, None),
        (7, 4, None),
        (
            5,
            2,
            "no difference can be shown: with 5 blocks the smallest p a sign-flip test can give is 0.0625, and 0.0625 "
            "after Holm's adjustment for 1 contrast; below 0.05 needs 6 blocks",
        ),
        (
            6,
            3,
            "no difference can be shown: with 6 blocks the smallest p a sign-flip test can give is 0.0312, and 0.0625 "
            "after Holm's adjustment for 2 contrasts; below 0.05 needs 7 blocks",
        ),
        (
            1,
            2,
            "no difference can be shown: with 1 block the smallest p a sign-flip test can give is 1, and 1 "
            "after Holm's adjustment for 1 contrast; below 0.05 needs 6 blocks",
        ),
        (9, 1, "nothing is compared: one arm, and no two cells that differ in one factor only"),
    ],
)
def test_a_family_that_cannot_reach_the_level_is_announced(load, blocks, arms, warning):
    text = "arms: {" + ", ".join(f"a{n}: {{threads: {n + 1}}}" for n in range(arms)) + "}\n"
    assert plan(load(text, minimal=minimal_with(blocks)), cores=8).warnings == ((warning,) if warning else ())


def test_controls_alone_are_no_family(load):
    grid = load("arms: {a: {}, b: {repeat: a}}\ncontrasts: [{arms: [a, b]}]\n", minimal=minimal_with(2))
    assert plan(grid, cores=1).warnings == ()


@pytest.mark.parametrize(("blocks", "few"), [(1, "1 block"), (5, "5 blocks"), (6, None)])
def test_a_one_ulp_control_on_too_few_blocks_is_announced(load, blocks, few):
    nudged = f"nudged: {{repeat: a, perturb: one-ulp, blocks: {blocks}}}"
    grid = load(f"arms: {{a: {{}}, b: {{threads: 2}}, {nudged}}}\n", minimal=minimal_with(7))
    said = f"no gap can be called SYSTEMATIC: the one-ulp control nudged has {few}, below 0.05 needs 6"
    assert plan(grid, cores=2).warnings == ((said,) if few else ())


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("{lr: 0.1}", "lr (the default in a, 0.1 in b)"),
        ("{width: 8, lr: 0.1}", "lr (the default in a, 0.1 in b), width (4 in a, 8 in b)"),
        ("{width: 4}", None),
        ("{input: copied}", None),
        ("{fast: true}", None),
    ],
)
def test_an_arm_with_a_number_of_its_own_is_announced(load, settings, said):
    """Words and switches choose between ways to compute the same; a learning rate does not."""
    grid = load(f"settings: {{width: 4}}\narms: {{a: {{}}, b: {{settings: {settings}}}}}\n", minimal=minimal_with(7))
    words = (
        f"the arms differ in the setting {said}: an arm is held to the result under its reference arm's settings; "
        "what is meant to change it is a factor's level"
    )
    assert plan(grid, cores=1).warnings == ((words,) if said else ())


ADVICE = (
    "lower `threads`, or launch on a machine with more cores: threads that share a core would be measured as a slow arm"
)


def test_more_threads_than_cores_are_refused_with_all_arms_named(load):
    grid = load("arms:\n  a: {threads: 4}\n  b: {threads: 2}\n  c: {threads: 3}\n  d: {repeat: a}\n")
    with pytest.raises(BadInput) as caught:
        plan(grid, cores=2, where=read_yaml("grid.yaml").where)
    assert str(caught.value) == (
        "grid.yaml:7: arms.a.threads: 4 threads, and a trial can use 2 cores here\n"
        f"    allowed: at most 2\n    {ADVICE}\n"
        "grid.yaml:9: arms.c.threads: 3 threads, and a trial can use 2 cores here\n"
        f"    allowed: at most 2\n    {ADVICE}"
    )
    with pytest.raises(BadInput, match=r"^arms\.a\.threads: 4 threads, and a trial can use 1 core here\n"):
        plan(grid, cores=1)
    assert len(plan(grid, cores=4).arms) == 4


def test_an_arm_that_asks_for_a_machine_by_a_tag_is_not_held_against_this_machines_cores(load):
    grid = load("arms:\n  a: {}\n  b: {threads: 6, resources: {ryzen: 1}}\n  c: {threads: 6, resources: {CPU: 1}}\n")
    with pytest.raises(BadInput) as caught:
        plan(grid, cores=2)
    assert [problem.where for problem in caught.value.problems] == ["arms.c.threads"]


def test_a_plan_is_plain_json(load):
    made = plan(load(TEXT), cores=2)
    content = json.loads(json.dumps(made.model_dump(mode="json"), allow_nan=False))
    assert content["factors"] == {"f": [1, 2]}
    assert content["contrasts"][0]["label"] == "b against a"
    assert type(made).model_validate_json(made.model_dump_json()) == made


def printed(grid):
    stream = io.StringIO()
    render(plan(grid, cores=8), Console(file=stream, width=100))
    return [" ".join(line.split()) for line in stream.getvalue().splitlines() if line.strip()]


def test_the_table(load):
    rule = "─"
    assert [line for line in printed(load(TEXT)) if not line.startswith(rule)] == [
        "s: Does it matter?",
        "40 trials of 100 batches, 4000 batches in all; blocks 0, 1, 2, 3, 4, 5",
        "factor f: 1, 2",
        "arm trials batches threads resources of a trial control",
        "a 12 1200 1 CPU 1",
        "b 12 1200 2 CPU 2, node 0.5",
        "again 4 400 2 CPU 2, node 0.5 repeat of b",
        "ulp 12 1200 2 CPU 2, node 0.5 one-ulp of b",
        "contrast blocks cells smallest p after Holm",
        "b against a 6 2 0.031 0.062",
        "f: 2 against 1 6 2 0.031 0.062",
        "again against b 2 2 0.5 control",
        "equivalence margin: 2%",
        "warning: no difference can be shown: with 6 blocks the smallest p a sign-flip test can give is",
        "0.0312, and 0.0625 after Holm's adjustment for 2 contrasts; below 0.05 needs 7 blocks",
    ]


def test_the_table_of_a_study_that_compares_nothing(load):
    assert printed(load(""))[-2:] == [
        "equivalence margin: none fixed, so no equivalence can be claimed",
        "warning: nothing is compared: one arm, and no two cells that differ in one factor only",
    ]
