from __future__ import annotations

import pytest

from ablate.design.extend import differences
from ablate.design.grid import GridSpec

BASE = """\
settings: {lr: 0.5, net: {layers: 2}}
factors: {clip: [a, b], rate: [1, 2]}
arms:
  fast: {threads: 2, env: {MKL_CBWR: AVX}}
  slow: {settings: {input: copied}}
  again: {repeat: fast, blocks: 2}
contrasts: [{arms: [fast, slow]}, {factor: rate, levels: [1, 2]}]
margin: 0.01
"""
MINIMAL = "study: s\nquestion: q\ntrainable: m:T\nblocks: 3\nbatches: 100\n"


@pytest.fixture
def changed(load):
    """Load the base and a changed version of it."""

    def changed(*replacements):
        old_text = new_text = MINIMAL + BASE
        for before, after in replacements:
            assert before in new_text
            new_text = new_text.replace(before, after)
        old = GridSpec.model_validate_json(load("", minimal=old_text).model_dump_json())
        return differences(old, load("", minimal=new_text))

    return changed


@pytest.mark.parametrize(
    "replacements",
    [
        [],
        [("blocks: 3\n", "blocks: 5\n")],
        [("blocks: 3\n", "blocks: [2, 1, 0]\n"), ("blocks: 2}", "blocks: 3}")],
        [("blocks: 2}", "blocks: 3}")],
        [("[a, b]", "[c, a, b]")],
        [("[1, 2]}\narms", "[1, 2, 3]}\narms")],
        [("  again:", "  new: {threads: 4}\n  again:")],
        [("  again:", "  new: {threads: 4}\n  again:"), ("slow]}", "slow]}, {arms: [slow, new]}")],
        [("[a, b]", "[a, b, c]"), ("slow]}", "slow]}, {factor: clip, levels: [a, c]}")],
        [("[a, b]", "[a, b, c]"), ("slow]}", "slow]}, {arms: [fast, slow], where: {clip: c}}")],
        [("{clip: [a, b], rate: [1, 2]}", "{rate: [2, 1], clip: [b, a]}")],
        [("{lr: 0.5, net: {layers: 2}}", "{net: {layers: 2}, lr: 0.5}")],
    ],
)
def test_what_only_adds_is_no_difference(changed, replacements):
    assert changed(*replacements) == []


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        ("study: s", "study: t", ["study: s -> t"]),
        ("question: q", "question: r", ["question: q -> r"]),
        ("m:T", "m:U", ["trainable: m:T -> m:U"]),
        ("lr: 0.5", "lr: 0.6", ["settings.lr: 0.5 -> 0.6"]),
        ("lr: 0.5, ", "", ["settings.lr: 0.5 -> (not given)"]),
        ("lr: 0.5", "lr: 0.5, x: [1, y]", ['settings.x: (not given) -> [1, "y"]']),
        ("layers: 2", "layers: 2.0", ["settings.net.layers: 2 -> 2.0"]),
        ("layers: 2", 'layers: "2"', ['settings.net.layers: 2 -> "2"']),
        ("layers: 2", "layers: true", ["settings.net.layers: 2 -> true"]),
        ("[a, b]", "[a, c]", ["factors.clip: [a, b] -> [a, c]"]),
        ("clip: [a, b], ", "", ["factors.clip: removed"]),
        (
            "{clip: [a, b],",
            "{clip: [a, b], new: [1],",
            ["factors.new: added; every trial of the store would need a level of it"],
        ),
        (
            "rate: [1, 2]}\narms",
            "rate: [1, 2, 0.5]}\narms",
            [
                "factors.rate: [1, 2] -> [1.0, 2.0, 0.5], levels of another kind; write whole numbers and numbers "
                "apart, such as 1.0",
            ],
        ),
        ("threads: 2, ", "threads: 3, ", ["arms.fast.threads: 2 -> 3", "arms.fast.resources.CPU: 2.0 -> 3.0"]),
        ("CBWR: AVX", "CBWR: SSE", ["arms.fast.env.MKL_CBWR: AVX -> SSE"]),
        ("input: copied", "input: reused", ["arms.slow.settings.input: copied -> reused"]),
        (
            "input: copied}",
            "input: copied}, kind: cpu, machine: m",
            ["arms.slow.kind: null -> cpu", "arms.slow.machine: null -> m"],
        ),
        ("  again: {repeat: fast, blocks: 2}\n", "", ["arms.again: removed"]),
        ("again: {repeat: fast", "again: {repeat: fast, perturb: one-ulp", ["arms.again.perturb: null -> one-ulp"]),
        ("again: {repeat: fast, blocks: 2}", "again: {repeat: fast, blocks: 1}", ["arms.again.blocks: [0, 1] -> [0]"]),
        ("blocks: 3\n", "blocks: 2\n", ["blocks: [0, 1, 2] -> [0, 1]"]),
        ("batches: 100", "batches: 200", ["batches: 100 -> 200"]),
        ("margin: 0.01", "margin: 0.02", ["margin: 0.01 -> 0.02"]),
        ("margin: 0.01", "margin: 2%", ["margin: 0.01 -> 2%"]),
        ("margin: 0.01", "", ["margin: 0.01 -> (not given)"]),
        ("margin: 0.01", "margin: 0.01\noutcome: {last: 20}", ["outcome.last: 50 -> 20"]),
        ("margin: 0.01", "margin: 0.01\noutcome: {evaluate: acc}", ["outcome.evaluate: null -> acc"]),
        ("margin: 0.01", "margin: 0.01\nguard: {first: 9}", ["guard.first: 3 -> 9"]),
        ("{arms: [fast, slow]}, ", "", ["contrasts: slow against fast: removed"]),
        (
            "slow]}",
            "slow]}, {factor: clip, levels: [a, b]}",
            ["contrasts: clip: b against a: added, between what the store already holds"],
        ),
    ],
)
def test_everything_else_is_a_difference(changed, before, after, lines):
    assert changed((before, after)) == lines


def test_a_first_margin_is_a_difference(load):
    old, new = load("", minimal=MINIMAL), load("margin: 2%", minimal=MINIMAL)
    assert differences(old, new) == ["margin: (not given) -> 2%"]
