# ruff: noqa: E501  (an expected message reads best in one piece)
from __future__ import annotations

import pytest

from ablate.design.grid import Arm, Contrast, GridSpec, GuardPlan, Margin, Numerics, Outcome

FULL = """\
settings: {learning_rate: 1.0e-3, layers: [3, 48], note: null}
factors:
  input: [copied, reused]
  rate: [1, 0.5]
arms:
  plain: {}
  wide:
    env: {ATEN_CPU_CAPABILITY: avx2, MKL_CBWR: COMPATIBLE}
    threads: 2
    onednn: false
    precision: bfloat16
    deterministic: true
    settings: {learning_rate: 0.5}
    resources: {CPU: 4, big_node: 0.5}
  wide-again: {repeat: wide, blocks: 2}
  one_ulp: {repeat: plain, perturb: one-ulp}
outcome: {evaluate: accuracy}
contrasts:
  - {arms: [plain, wide], where: {rate: 1}}
  - {factor: rate, levels: [0.5, 1]}
margin: 2.5%
guard: {first: 1, every: 0}
"""


def test_everything_written(load):
    grid = load(FULL)
    wide = Numerics(
        env={"ATEN_CPU_CAPABILITY": "avx2", "MKL_CBWR": "COMPATIBLE"},
        threads=2,
        onednn=False,
        precision="bfloat16",
        deterministic=True,
    )
    every = (0, 1, 2, 3, 4, 5)
    needs = {"CPU": 4.0, "big_node": 0.5}
    assert grid == GridSpec(
        study="s",
        question="Does it matter?",
        trainable="pkg.mod:Thing",
        settings={"learning_rate": 0.001, "layers": [3, 48], "note": None},
        factors={"input": ("copied", "reused"), "rate": (1.0, 0.5)},
        arms={
            "plain": Arm(numerics=Numerics(), settings={}, resources={"CPU": 1.0}, blocks=every),
            "wide": Arm(numerics=wide, settings={"learning_rate": 0.5}, resources=needs, blocks=every),
            "wide-again": Arm(
                numerics=wide, settings={"learning_rate": 0.5}, resources=needs, blocks=(0, 1), repeat="wide"
            ),
            "one_ulp": Arm(
                numerics=Numerics(perturb="one-ulp"), settings={}, resources={"CPU": 1.0}, blocks=every, repeat="plain"
            ),
        },
        blocks=every,
        batches=100,
        outcome=Outcome(evaluate="accuracy"),
        contrasts=(
            Contrast(arms=("plain", "wide"), where={"rate": 1.0}),
            Contrast(factor="rate", levels=(0.5, 1.0)),
        ),
        margin=Margin(value=2.5, unit="percent"),
        guard=GuardPlan(first=1, every=0),
    )
    assert list(grid.arms) == ["plain", "wide", "wide-again", "one_ulp"]
    assert [arm.control for arm in grid.arms.values()] == [False, False, True, True]


def test_defaults(load):
    grid = load("")
    default = Arm(numerics=Numerics(), settings={}, resources={"CPU": 1.0}, blocks=(0, 1, 2, 3, 4, 5))
    assert grid.arms == {"default": default}
    assert grid.settings == {}
    assert grid.factors == {}
    assert grid.outcome == Outcome(metric="loss", last=50)
    assert grid.contrasts == ()
    assert grid.margin is None
    assert grid.guard == GuardPlan(first=3, every=50)


@pytest.mark.parametrize("text", ["", FULL, "factors: {flag: [true, false], n: [1, 2], x: [1.0, 2.0]}"])
def test_the_spec_survives_json(load, text):
    grid = load(text)
    again = GridSpec.model_validate_json(grid.model_dump_json())
    assert again == grid
    assert again.model_dump_json() == grid.model_dump_json()
    kinds = [[type(level) for level in levels] for levels in grid.factors.values()]
    assert [[type(level) for level in levels] for levels in again.factors.values()] == kinds


def test_the_spec_is_frozen_and_refuses_unknown_keys(load):
    grid = load("")
    with pytest.raises(ValueError, match="frozen"):
        grid.study = "other"
    with pytest.raises(ValueError, match="Extra inputs are not permitted"):
        GridSpec.model_validate({**grid.model_dump(), "extra": 1})


def test_blocks_as_a_list_keep_their_order(load):
    grid = load("arms: {a: {}, b: {repeat: a, blocks: 2}}", minimal=MINIMAL_LIST)
    assert grid.blocks == (7, 0, 3)
    assert grid.arms["b"].blocks == (7, 0)


MINIMAL_LIST = "study: s\nquestion: q\ntrainable: m:T\nblocks: [7, 0, 3]\nbatches: 20\n"


def test_the_outcome_of_a_short_trial_is_over_all_its_batches(load):
    assert load("", minimal=MINIMAL_LIST).outcome.last == 20
    assert load("outcome: {metric: accuracy}", minimal=MINIMAL_LIST).outcome == Outcome(metric="accuracy", last=20)
    assert load("outcome: {last: 20}", minimal=MINIMAL_LIST).outcome.last == 20


@pytest.mark.parametrize(
    ("written", "margin", "text", "of_minus_two"),
    [("0.01", Margin(value=0.01), "0.01", 0.01), ("3", Margin(value=3.0), "3", 3.0)]
    + [(spelling, Margin(value=2.0, unit="percent"), "2%", 0.04) for spelling in ("2%", "2.0 %", '"2%"')],
)
def test_margin(load, written, margin, text, of_minus_two):
    grid = load(f"margin: {written}\n")
    assert grid.margin == margin
    assert str(grid.margin) == text
    assert grid.margin.of(-2.0) == of_minus_two


KEYS = (
    "study, question, trainable, settings, factors, arms, blocks, batches, outcome, contrasts, margin, "
    "guard, audit, checkpoint, artifacts, sketches, probes, stall_minutes"
)
NAME = "a name of lower-case letters, digits and _ that begins with a letter"
MARGIN = "a positive number in the outcome's unit, or a percentage of the reference's mean such as \"2%\""
ARGUMENTS = "names of Python arguments: letters, digits and _, not beginning with a digit"
OUTCOME = "a mapping: {metric: NAME, last: N} or {evaluate: NAME}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("setings: {}\n", f'6: setings: unknown key "setings"\n    did you mean \'settings\'?\n    allowed: {KEYS}'),
        ("settings: 3\n", "6: settings: found 3 (a whole number)\n    allowed: a mapping of the trainable's settings to values"),
        ("settings:\n", "6: settings: found nothing (null)\n    allowed: a mapping of the trainable's settings to values"),
        ("settings: {a-b: 1}\n", f'6: settings.a-b: the name "a-b" cannot be used\n    allowed: {ARGUMENTS}'),
        ("factors: [a]\n", "6: factors: found a list of 1\n    allowed: a mapping of factor names to lists of levels"),
        ("factors: {f: 1}\n", "6: factors.f: found 1 (a whole number)\n    allowed: a list of at least one level, or {levels: [...], when: {...}}"),
        ("factors: {f: []}\n", "6: factors.f: found an empty list\n    allowed: a list of at least one level, or {levels: [...], when: {...}}"),
        ("factors: {F: [1]}\n", f'6: factors.F: the name "F" cannot be used\n    allowed: for a factor, {NAME}'),
        ("factors: {f: [1, x]}\n", '6: factors.f[1]: found "x" (text) beside 1 (a whole number)\n    allowed: levels of one kind'),
        ("factors: {f: [1, true]}\n", "6: factors.f[1]: found true (a boolean) beside 1 (a whole number)\n    allowed: levels of one kind"),
        ("factors: {f: [1, 2, 1.0]}\n", "6: factors.f[2]: the level 1.0 stands there twice"),
        (
            f"factors: {{f: [1, {2**63}]}}\n",
            f"6: factors.f[1]: found {2**63}\n    allowed: at most {2**63 - 1}\n"
            "    write it as a number: 9.2233720368547758e+18",
        ),
        ("factors: {f: [true, false, true]}\n", "6: factors.f[2]: the level true stands there twice"),
        ("factors: {f: [null]}\n", "6: factors.f[0]: found nothing (null)\n    allowed: a number, a text or true/false"),
        ("factors: {f: [{a: 1}]}\n", "6: factors.f[0]: found a mapping\n    allowed: a number, a text or true/false"),
        ("outcome: loss\n", f'6: outcome: found "loss" (text)\n    allowed: {OUTCOME}'),
        ("outcome: {metrc: loss}\n", '6: outcome.metrc: unknown key "metrc"\n    did you mean \'metric\'?\n    allowed: metric, last, evaluate'),
        ("outcome: {metric: Loss}\n", f'6: outcome.metric: found "Loss" (text)\n    allowed: {NAME}'),
        ("outcome: {last: 0}\n", "6: outcome.last: found 0 (a whole number)\n    allowed: a whole number from 1: how many of the last batches are averaged"),
        ("outcome: {last: 101}\n", "6: outcome.last: found 101\n    allowed: at most 100, the number of batches"),
        ("outcome: {evaluate: 1}\n", f"6: outcome.evaluate: found 1 (a whole number)\n    allowed: {NAME}"),
        ("outcome: {evaluate: a, last: 3}\n", "6: outcome.evaluate: evaluate beside last\n    allowed: a held-out value or a metric's mean, not both"),
        ("margin: -1\n", f"6: margin: found -1 (a whole number)\n    allowed: {MARGIN}"),
        ("margin: 0\n", f"6: margin: found 0 (a whole number)\n    allowed: {MARGIN}"),
        ("margin: 2 percent\n", f'6: margin: found "2 percent" (text)\n    allowed: {MARGIN}'),
        ("margin: true\n", f"6: margin: found true (a boolean)\n    allowed: {MARGIN}"),
        ("margin: 0%\n", '6: margin: found "0%"\n    allowed: more than 0%'),
        ("guard: 3\n", "6: guard: found 3 (a whole number)\n    allowed: a mapping: {first: N, every: N}"),
        ("guard: {evry: 3}\n", '6: guard.evry: unknown key "evry"\n    did you mean \'every\'?\n    allowed: first, every'),
        ("guard: {first: -1}\n", "6: guard.first: found -1 (a whole number)\n    allowed: a whole number from 0: how many first batches are watched"),
        ("guard: {every: 1.5}\n", "6: guard.every: found 1.5 (a number)\n    allowed: a whole number from 0: every n-th batch is watched; 0 for none"),
        ("settings: {lr: 1e-3}\n", '6: settings.lr: 1e-3 is text in YAML 1.1, not a number\n    write 1.0e-3, or "1e-3" for the text'),
        ("settings: {a: 1, a: 2}\n", '6: settings.a: "a" stands here and in line 6; YAML would silently drop the first\n    rename or remove one of them'),
    ],
)  # fmt: skip
def test_one_thing_wrong(complaints, text, message):
    assert complaints(text) == [f"grid.yaml:{message}"]


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("study", "S-1", f'found "S-1" (text)\n    allowed: {NAME}'),
        ("study", "3", f"found 3 (a whole number)\n    allowed: {NAME}"),
        ("question", '" "', 'found " " (text)\n    allowed: text that says what the study asks'),
        ("question", "true", "found true (a boolean)\n    allowed: text that says what the study asks"),
        ("trainable", "a.b", 'found "a.b" (text)\n    allowed: an import path, such as my_package.my_module:Thing'),
        ("batches", "0", "found 0 (a whole number)\n    allowed: a whole number from 1 to 9223372036854775807"),
        ("batches", f"{2**63}", f"found {2**63} (a whole number)\n    allowed: a whole number from 1 to {2**63 - 1}"),
        ("batches", "true", "found true (a boolean)\n    allowed: a whole number from 1 to 9223372036854775807"),
        (
            "batches",
            '"10"',
            'found "10" (text)\n    allowed: a whole number from 1 to 9223372036854775807\n    remove the quotes: 10',
        ),
        ("batches", "1.5", "found 1.5 (a number)\n    allowed: a whole number from 1 to 9223372036854775807"),
    ],
)
def test_a_required_key_is_wrong(complaints, minimal, key, value, message):
    lines = [f"{key}: {value}" if line.startswith(f"{key}:") else line for line in minimal.splitlines()]
    number = next(index for index, line in enumerate(lines, 1) if line.startswith(f"{key}:"))
    assert complaints("", minimal="\n".join(lines) + "\n") == [f"grid.yaml:{number}: {key}: {message}"]


BLOCKS = "a number of blocks from 1 to 10000, or a list of distinct whole numbers from 0"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("0", f"blocks: found 0 (a whole number)\n    allowed: {BLOCKS}"),
        ("99999999999", f"blocks: found 99999999999 (a whole number)\n    allowed: {BLOCKS}"),
        ("[]", f"blocks: found an empty list\n    allowed: {BLOCKS}"),
        ("true", f"blocks: found true (a boolean)\n    allowed: {BLOCKS}"),
        ("[0, -1]", "blocks[1]: found -1 (a whole number)\n    allowed: a whole number from 0 to 9223372036854775807"),
        ("[0, a]", 'blocks[1]: found "a" (text)\n    allowed: a whole number from 0 to 9223372036854775807'),
        (
            f"[0, {2**63}]",
            f"blocks[1]: found {2**63} (a whole number)\n    allowed: a whole number from 0 to {2**63 - 1}",
        ),
        ("[0, 1, 0]", "blocks[2]: the block 0 stands there twice"),
    ],
)
def test_blocks_are_wrong(complaints, minimal, value, message):
    assert complaints("", minimal=minimal.replace("blocks: 6", f"blocks: {value}")) == [f"grid.yaml:4: {message}"]


def test_an_empty_mapping_lacks_all_required_keys(complaints):
    found = complaints("", minimal="{}\n")
    assert [line.splitlines()[0] for line in found] == [
        f"grid.yaml:1: {key}: missing" for key in ("study", "question", "trainable", "blocks", "batches")
    ]


def test_every_problem_is_reported_at_once_in_file_order(complaints):
    found = complaints(
        """\
        question: 3
        trainable: pkg
        settings: {lr: 1e-3, on: 1}
        factors: {clip: [a, 1], lr: 3}
        arms:
          a: {settings: {clip: x}, treads: 2}
          a: {}
          b: {repeat: c, env: {X: 1}}
        blocks: [0, 0]
        contrasts:
          - {arms: [a, bb]}
          - {factor: lr, levels: [1, 2]}
        margin: none
        """,
        minimal="study: S\n",
    )
    assert [line.splitlines()[0].removeprefix("grid.yaml:") for line in found] == [
        '1: study: found "S" (text)',
        "1: batches: missing",
        "2: question: found 3 (a whole number)",
        '3: trainable: found "pkg" (text)',
        "4: settings.lr: 1e-3 is text in YAML 1.1, not a number",
        "4: settings.on: as a key, on is the boolean true in YAML 1.1",
        '5: factors.clip[1]: found 1 (a whole number) beside "a" (text)',
        "5: factors.lr: found 3 (a whole number)",
        '7: arms.a.treads: unknown key "treads"',
        "7: arms.a.settings.clip: clip is a factor, so its levels and this arm would both decide it",
        '8: arms.a: "a" stands here and in line 7; YAML would silently drop the first',
        "9: arms.b.env.X: found 1 (a whole number)",
        '9: arms.b.env: env beside `repeat`, which copies it from c',
        '9: arms.b.repeat: no arm is called "c"',
        "10: blocks[1]: the block 0 stands there twice",
        '12: contrasts[0].arms[1]: no arm is called "bb"',
        '14: margin: found "none" (text)',
    ]  # fmt: skip
